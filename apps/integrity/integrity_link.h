#pragma once

// The connection by which the two processes exchange addresses and wait for one another: TCP
// between machines, a socket pair between parent and child.

#include <cstddef>
#include <cstdint>
#include <string>

namespace integrity {

class Link {
 public:
  explicit Link(int descriptor) : descriptor_(descriptor) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Waits for a connection, and prints the port; 0 is any free one. -1 on failure, after saying
  // why, as `program`.
  static int listen_once(const char* program, std::uint16_t port);
  // The same, or kUnknownHost.
  static constexpr int kUnknownHost = -2;
  static int connect_to(const char* program, const std::string& host, std::uint16_t port);

  // False when the peer is gone or silent for `timeout_s`.
  bool send(const void* bytes, std::size_t length) const;
  bool receive(void* bytes, std::size_t length) const;
  // Sends `mine` and receives the peer's.
  template <typename Record>
  bool exchange(const Record& mine, Record& theirs) const {
    return send(&mine, sizeof(mine)) && receive(&theirs, sizeof(theirs));
  }
  // Whether bytes wait to be received.
  [[nodiscard]] bool readable() const;

 private:
  int descriptor_;
};

}  // namespace integrity
