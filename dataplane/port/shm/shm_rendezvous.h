#pragma once

// The UNIX socket through which two daemons find each other. The first listens, the second
// connects; when one has gone, the other listens again. Only daemons of the same user are
// connected.
//
// FILE.lock beside the socket is locked while a daemon checks whether another listens, removes the
// socket of a killed daemon, and starts to listen.
//
// One thread. No call blocks longer than kTimeoutMs (exchange_hello(): a second, for the other's
// message), or after `stop` has become readable.

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

  // Checks whether a socket can be created there at all.
  [[nodiscard]] Status check() const;

  // A connection to the other daemon; invalid: none yet. After an error, which says why none is
  // possible, call pause() before the next attempt.
  Result<UniqueFd> meet(int stop);
  static void pause(int stop);
  // While there is a connection: turns further daemons away. Returns when the connection has ended,
  // `stop` has become readable, or after kTimeoutMs.
  enum class Watched : std::uint8_t { kAlive, kEnded };
  Watched watch(int connection, int stop);

 private:
  Result<UniqueFd> connect_or_listen();
  Status listen();
  [[nodiscard]] bool is_ours() const;
  void close();

  std::string path_;
  UniqueFd listener_;
  ino_t inode_ = 0;  // of the socket file that it created
};

// Both sides send their hello message with descriptors. EPROTO and a sentence if the other one is
// incompatible.
Result<ShmPeer> exchange_hello(int connection, int stop, const ShmHello& hello,
                               const ShmMemory& memory, const std::vector<int>& wakeups);

}  // namespace uroce
