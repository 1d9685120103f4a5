#pragma once

// A program that reads its asynchronous events.

#include <sys/socket.h>
#include <sys/time.h>

#include "tests/unit/control/program.h"

namespace uroce::control {

// A program with the read end of its event socket.
class Listener {
 public:
  static constexpr std::uint32_t kNone = 99;

  explicit Listener(Rig& rig) : program(rig) {
    Answer answer = program.ask(abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
    EXPECT_EQ(answer.header.error, 0);
    socket_ = std::move(answer.record.descriptors.front());
    const timeval patience{.tv_sec = kTimeoutSeconds, .tv_usec = 0};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    pd = program.make_pd();
    cq = program.make_cq();
  }

  abi::CreateQpReply make_qp(std::uint64_t cookie) {
    abi::CreateQpRequest request = program.rc_qp(pd, cq);
    request.cookie = cookie;
    return program.ask(abi::Command::kCreateQp, request).as<abi::CreateQpReply>();
  }
  // The next event; kNone if there is none.
  abi::AsyncEventRecord next() { return read(MSG_DONTWAIT); }
  // Waits for the next event; kNone if none comes.
  abi::AsyncEventRecord await() { return read(0); }
  void close() { socket_.reset(); }

  Program program;
  std::uint32_t pd = 0, cq = 0;

 private:
  static constexpr int kTimeoutSeconds = 30;

  abi::AsyncEventRecord read(int flags) {
    abi::AsyncEventRecord record{.event = kNone, .handle = 0, .cookie = 0};
    (void)!::recv(socket_.get(), &record, sizeof(record), flags);
    return record;
  }

  UniqueFd socket_;
};

}  // namespace uroce::control
