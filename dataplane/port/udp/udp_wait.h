#pragma once

// One descriptor for a sleeping worker to wait on, however many sockets its queue has.
//
// For a watched socket the kernel notifies the epoll of every packet received and of every buffer
// freed, taking locks each time, even if no thread sleeps: with single packets that was a tenth of
// a sender's time. So sockets are watched only while the worker sleeps and for its first bursts
// afterwards: busy workers pay nothing, and workers that sleep after every message needn't add and
// remove the watch each time.

#include <vector>

#include "base/unique_fd.h"

namespace uroce {

class UdpWait {
 public:
  UdpWait();

  // An epoll descriptor; readable while a watched socket is, or has an error. -1: it couldn't be
  // created.
  [[nodiscard]] int descriptor() const { return epoll_.get(); }
  // The caller keeps ownership of `socket`, and removes it before closing it.
  void add(int socket);
  void remove(int socket);

  // Before the worker sleeps: watches all sockets. True: there is nothing to read.
  bool arm();
  // The worker is awake.
  void disarm() { bursts_left_ = watching_ ? kBurstsWatched : 0; }
  // A burst was received or sent. A thread that runs in place of a sleeping worker may send, too.
  void burst() {
    if (bursts_left_ != 0 && --bursts_left_ == 0) [[unlikely]] {
      stop();
    }
  }

  static constexpr int kBurstsWatched = 3;  // since the worker last woke

 private:
  void stop();

  UniqueFd epoll_;
  std::vector<int> sockets_;
  bool watching_ = false;
  int bursts_left_ = 0;  // bursts for which sockets stay watched; 0: asleep or not watched
};

}  // namespace uroce
