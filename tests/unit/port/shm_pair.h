#pragma once

// Two shm ports of this process that meet in a folder of the test's own, and frames for them.

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <string>
#include <vector>

#include "base/time/monotonic_clock.h"
#include "dataplane/port/make_port.h"
#include "tests/unit/temporary_folder.h"
#include "tests/wire/sample.h"

namespace uroce::test {

class ShmPair : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMtu = 4'200;

  // Waits for other threads; the limit of a minute only detects a hang.
  template <typename Condition>
  static void wait_until(const Condition& holds) {
    const Time end = monotonic_now() + 60 * kNanosecondsPerSecond;
    while (!holds()) {
      ASSERT_LT(monotonic_now(), end);
      ::sched_yield();
    }
  }

  [[nodiscard]] std::string path() const { return folder_ / "wire.sock"; }
  std::unique_ptr<Port> open(std::uint8_t last, std::uint16_t queues = 1,
                             std::uint32_t mtu = kMtu) const {
    const Gid address = *parse_ip("10.77.1." + std::to_string(last));
    auto port =
        make_port("shm,path=" + path(), {.mtu = mtu, .queues = queues, .addresses = {address}});
    EXPECT_TRUE(port) << (port ? "" : port.error().message);
    return port ? std::move(*port) : nullptr;
  }
  void join(std::uint16_t near_queues = 1, std::uint16_t far_queues = 1) {
    near_ = open(1, near_queues);
    far_ = open(2, far_queues);
    expect_joined();
  }
  void expect_joined() {
    wait_until([this] { return near_->info().link_up && far_->info().link_up; });
  }

  // nullptr: the port has no frame to give.
  Frame* build(Port& port, std::uint32_t payload) {
    Frame* frame = nullptr;
    if (port.allocate(&frame, 1) == 0) {
      return nullptr;
    }
    Path path;
    path.source_gid = *parse_ip("10.77.1.1");
    path.destination_gid = *parse_ip("10.77.1.2");
    Headers headers{.opcode = Opcode::kRcSendOnly};
    headers.psn = next_psn_++;
    bytes_ = random_bytes(random_, payload);
    FrameWriter writer(*frame, FrameTemplate(path), headers, payload, 1);
    writer.append(bytes_.data(), payload);
    writer.finish();
    return frame;
  }
  // True if the port took the frame; otherwise it is released.
  static bool send(Port& port, Frame* frame, std::uint16_t queue = 0) {
    if (port.tx_burst(queue, &frame, 1, 0) == 1) {
      return true;
    }
    port.release(&frame, 1);
    return false;
  }
  // nullptr: nothing has arrived.
  static Frame* receive(Port& port, std::uint16_t queue = 0) {
    Frame* frame = nullptr;
    return port.rx_burst(queue, &frame, 1, 0) == 1 ? frame : nullptr;
  }
  // Checks that the payload built last has arrived.
  void expect_payload(Frame& frame) const {
    ASSERT_EQ(parse(frame), Drop::kNone);
    const Packet& packet = frame.packet;
    EXPECT_EQ(Bytes(packet.payload, packet.payload + packet.payload_length), bytes_);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Port> near_, far_;
  Random random_{1};
  std::uint32_t next_psn_ = 0;
  Bytes bytes_;
};

}  // namespace uroce::test
