#pragma once

// Where two daemons meet: a UNIX socket. Who comes first listens, who comes second connects; when
// one has gone, the other listens or goes on doing so. Of one's own user only.
//
// A file beside the socket, FILE.lock, is locked while one looks whether anybody listens, removes
// what a killed daemon left, and listens.
//
// One thread. Nothing here waits longer than kTimeout (exchange_hello(): a second, for the other's
// hello), or after `stop` has become readable.

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/port/shm/shm_link.h"

namespace uroce {

class ShmRendezvous {
 public:
  static constexpr int kTimeoutMs = 200;

  explicit ShmRendezvous(std::string path) : path_(std::move(path)) {}
  ~ShmRendezvous();
  ShmRendezvous(const ShmRendezvous&) = delete;
  ShmRendezvous& operator=(const ShmRendezvous&) = delete;

  // Whether a socket can be made there at all.
  [[nodiscard]] Status check() const;

  // A connection to the other daemon; invalid: nobody has come. An error says why nobody can; then
  // pause() before the next try.
  Result<UniqueFd> meet(int stop);
  static void pause(int stop);
  // While there is a connection: whoever else comes is sent away. Returns when the connection has
  // ended, `stop` has become readable, or after kTimeout.
  enum class Watched : std::uint8_t { kAlive, kEnded };
  Watched watch(int connection, int stop);

 private:
  Result<UniqueFd> connect_or_listen();
  Status listen();
  [[nodiscard]] bool is_ours() const;
  void close();

  std::string path_;
  UniqueFd listener_;
  ino_t inode_ = 0;  // of the file that it made
};

// Both sides say hello, and pass what goes with it. EPROTO and a sentence if the other is none that
// can be joined.
Result<ShmPeer> exchange_hello(int connection, int stop, const ShmHello& hello,
                               const ShmMemory& memory, const std::vector<int>& wakeups);

}  // namespace uroce
