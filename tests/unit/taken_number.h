#pragma once

// A descriptor number that the program took over: it closed the owner's descriptor, and got the
// number again for a connection of its own, in which a message waits to be read.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/unique_fd.h"

namespace uroce::test {

class TakenNumber {
 public:
  explicit TakenNumber(int number) : number_(number) {
    int ends[2] = {-1, -1};
    EXPECT_GE(number, 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd end(ends[0]);
    peer_.reset(ends[1]);
    EXPECT_EQ(::dup3(end.get(), number, O_CLOEXEC), number);
    EXPECT_EQ(::send(peer_.get(), kWaits.data(), kWaits.size(), 0),
              static_cast<ssize_t>(kWaits.size()));
  }
  // Checks whether the connection was used meanwhile.
  ~TakenNumber() {
    char bytes[2 * kWaits.size()] = {};
    const ssize_t written = ::recv(peer_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    EXPECT_TRUE(written == -1 && errno == EAGAIN)
        << number_ << (written == 0 ? " was shut down or closed" : " was written to");
    const ssize_t left = ::recv(number_, bytes, sizeof(bytes), MSG_DONTWAIT);
    EXPECT_EQ(left, static_cast<ssize_t>(kWaits.size())) << number_ << " was read from or closed";
    ::close(number_);
  }
  TakenNumber(const TakenNumber&) = delete;
  TakenNumber& operator=(const TakenNumber&) = delete;

 private:
  // Longer than any record that the shim reads.
  static constexpr std::string_view kWaits =
      "what the program's peer has sent to the program, which nobody but the program may read, be "
      "it as long as it may";
  int number_;
  UniqueFd peer_;
};

}  // namespace uroce::test
