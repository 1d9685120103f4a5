#pragma once

// A descriptor whose close() blocks for as long as its maker likes: a TCP socket with data that its
// peer doesn't read, and SO_LINGER. Any program can make one and pass it on.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "base/unique_fd.h"

namespace uroce::control {

class LingeringSocket {
 public:
  LingeringSocket() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), any, length), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), any, &length), 0);
    socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(socket_.get(), any, length);
    peer_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<std::byte, 65'536> data{};
    while (::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL) > 0) {
    }
    const linger how{.l_onoff = 1, .l_linger = 60};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &how, sizeof(how)), 0);
  }

  // To be passed on; closing the last copy blocks.
  UniqueFd take() { return std::move(socket_); }
  // The peer resets the connection, which ends a blocked close().
  void give_way() { peer_.reset(); }

 private:
  UniqueFd socket_, peer_;
};

}  // namespace uroce::control
