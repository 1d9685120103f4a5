#pragma once

// Where two daemons meet: a UNIX socket. Who comes first listens, who comes second connects; when
// one has gone, the other listens or goes on doing so. Of one's own user only.
//
// A file beside the socket, FILE.lock, is locked while one looks whether anybody listens, removes
// what a killed daemon left, and listens.
//
// One thread. Nothing here waits longer than kPatience (greet(): a second, for the other's hello),
// or after `stop` has become readable.

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/port/shm/shm_link.h"

namespace uroce {

class ShmDoor {
 public:
  static constexpr int kPatienceMs = 200;

  explicit ShmDoor(std::string path) : path_(std::move(path)) {}
  ~ShmDoor();
  ShmDoor(const ShmDoor&) = delete;
  ShmDoor& operator=(const ShmDoor&) = delete;

  // Whether a socket can be made there at all.
  [[nodiscard]] Status check() const;

  // A connection to the other daemon; invalid: nobody has come. An error says why nobody can; then
  // pause() before the next try.
  Result<UniqueFd> meet(int stop);
  static void pause(int stop);
  // While there is a connection: whoever else comes is sent away. Returns when the connection has
  // ended, `stop` has become readable, or after kPatience.
  enum class Watched : std::uint8_t { kStands, kEnded };
  Watched watch(int connection, int stop);

 private:
  Result<UniqueFd> knock_or_listen();
  Status listen();
  [[nodiscard]] bool is_ours() const;
  void close();

  std::string path_;
  UniqueFd listener_;
  ino_t inode_ = 0;  // of the file that it made
};

// Both sides say hello, and pass what goes with it. EPROTO and a sentence if the other is none that
// can be joined.
Result<ShmPeer> greet(int connection, int stop, const ShmHello& hello, const ShmMemory& memory,
                      const std::vector<int>& bells);

}  // namespace uroce
