#pragma once

// A server with its thread, a real socket, and workers that run.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "control/server/server.h"
#include "tests/unit/control/program.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    raise_descriptor_limit();
    rig.card.set_clock([this] { return monotonic_now() + (ahead_ += step); });
    EXPECT_TRUE(rig.card.engine().start()) << "workers run, as in the daemon";
    path = folder_ / "s";
    auto made = Server::listen(rig.services, path, 0600);
    EXPECT_TRUE(made) << made.error().message;
    server = std::move(*made);
    thread = std::thread([this] { server->run(stop.get()); });
  }
  ~ServerTest() override {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop.get(), &one, sizeof(one)), 8);
    thread.join();
    server.reset();
    rig.card.engine().stop();
    EXPECT_EQ(::access(path.c_str(), F_OK), -1) << "the socket is removed";
  }

  static void raise_descriptor_limit() {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  static UniqueFd leave_socket(const std::string& path, int type) {
    UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const auto address = address_of(path);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)),
              0);
    return socket;
  }
  UniqueFd connect() {
    auto connection = connect_to(path);
    EXPECT_TRUE(connection);
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return std::move(*connection);
  }
  template <typename Body>
  static Answer ask(const UniqueFd& connection, abi::Command command, const Body& body) {
    EXPECT_EQ(send_record(connection.get(), make_record(command, body)), Sending::kSent);
    return receive(connection);
  }
  static Answer ask(const UniqueFd& connection, abi::Command command) {
    return ask(connection, command, abi::RequestHeader{});
  }

  Rig rig;
  // How far control's clock is advanced each time it is read.
  std::atomic<Duration> step{0}, ahead_{0};
  test::TemporaryFolder folder_;
  std::string path;
  UniqueFd stop{::eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<Server> server;
  std::thread thread;
};

}  // namespace uroce::control
