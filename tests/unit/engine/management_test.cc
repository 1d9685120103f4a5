// Datagrams for QP1, on their way to control.

#include <gtest/gtest.h>

#include <vector>

#include "dataplane/engine/worker.h"
#include "dataplane/port/link_port.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "mmu/key_table.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

struct KeptMads final : FrameSink {
  bool take(std::uint16_t, std::span<const std::byte>) override { return false; }
  bool take_mad(std::uint16_t, std::span<const std::byte> frame, const Gid& /*sender*/) override {
    if (count == room) {
      return false;
    }
    last.assign(frame.begin(), frame.end());
    ++count;
    return true;
  }
  std::vector<std::byte> last;
  std::uint32_t count = 0;
  std::uint32_t room = 100;
};

class Management : public testing::Test {
 protected:
  Management() {
    worker_.set_addresses(0, {*parse_ip("10.0.0.2")});
    path_.destination_mac = ports_.second->info().mac;
    path_.source_gid = *parse_ip("10.0.0.1");
    path_.destination_gid = *parse_ip("10.0.0.2");
  }

  static Headers mad_headers() {
    return {.opcode = Opcode::kUdSendOnly,
            .dest_qpn = kGsiQpn,
            .deth = {.qkey = kGsiQkey, .source_qpn = kGsiQpn}};
  }

  void receive(const Headers& headers, std::uint32_t length = kMadLength) {
    Frame* frame = nullptr;
    ASSERT_EQ(ports_.first->allocate(&frame, 1), 1U);
    const std::vector<std::byte> payload(length, std::byte{0x5A});
    FrameWriter writer(*frame, FrameTemplate(path_), headers, length, 1);
    writer.append(payload.data(), length);
    writer.finish();
    ASSERT_EQ(ports_.first->tx_burst(0, &frame, 1, 0), 1U);
    worker_.poll(0);
  }
  std::uint64_t drops(Drop reason) {
    note_drops(worker_.counters().drops);
    return worker_.counters().drops[reason];
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 16, 1};
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports_ = make_link({});
  KeptMads mads_;
  Worker worker_{{.ports = {ports_.second.get()}, .keys = &keys_, .frames = &mads_}};
  Path path_;
};

TEST_F(Management, AMadForQp1GoesToControlWhole) {
  receive(mad_headers());
  EXPECT_EQ(mads_.count, 1U);
  EXPECT_EQ(mads_.last.size(), 14U + 20 + 8 + 12 + 8 + 256 + 4);
  EXPECT_EQ(mads_.last[14 + 20 + 8 + 12 + 8], std::byte{0x5A});
}

TEST_F(Management, OnlyTheRightQkeyOpensQp1) {
  Headers headers = mad_headers();
  headers.deth.qkey = 0x1111'1111;
  receive(headers);
  EXPECT_EQ(drops(Drop::kBadQkey), 1U);
  EXPECT_EQ(mads_.count, 0U);
}

TEST_F(Management, OnlyTheDefaultPartitionReachesQp1) {
  Headers headers = mad_headers();
  headers.pkey = 0x8001;
  receive(headers);
  EXPECT_EQ(drops(Drop::kBadPkey), 1U);
}

TEST_F(Management, Qp1TakesOnlyDatagrams) {
  Headers headers = mad_headers();
  headers.opcode = Opcode::kRcSendOnly;
  receive(headers);
  EXPECT_EQ(drops(Drop::kWrongQpType), 1U);
}

TEST_F(Management, AMadHas256Bytes) {
  receive(mad_headers(), 252);
  receive(mad_headers(), 260);
  EXPECT_EQ(drops(Drop::kBadMadLength), 2U);
}

TEST_F(Management, MadsThatDoNotFitIntoControlsQueueAreCounted) {
  mads_.room = 1;
  receive(mad_headers());
  receive(mad_headers());
  EXPECT_EQ(drops(Drop::kControlFull), 1U);
}

// When a datagram comes, checks whether the program had been notified of its message.
struct LooksForACompletion final : FrameSink {
  explicit LooksForACompletion(Endpoint& end) : program(end) {}
  bool take(std::uint16_t, std::span<const std::byte>) override { return false; }
  bool take_mad(std::uint16_t, std::span<const std::byte>, const Gid& /*sender*/) override {
    came = true;
    completed = program.poll_recv().has_value();
    return true;
  }
  Endpoint& program;
  bool came = false, completed = false;
};

// A message, followed in the same turn by the datagram that ends the connection.
TEST(ManagementOrder, ProgramsAreNotifiedBeforeControlGetsALaterDatagram) {
  QpPair pair;
  auto ports = make_link({});
  LooksForACompletion sink(pair.b);
  Station a({.ports = {ports.first.get()}, .keys = &pair.a.keys()}, "10.0.0.1");
  Station b({.ports = {ports.second.get()}, .keys = &pair.b.keys(), .frames = &sink}, "10.0.0.2");
  a.add(pair.a.qp());
  b.add(pair.b.qp());
  const abi::Sge sge = pair.a.sge(0, 8);
  pair.b.post_recv(1, {&sge, 0});
  abi::SendWr message{};
  message.wr_id = 2;
  message.opcode = abi::WrOpcode::kSend;
  message.flags = abi::kSignaled;
  pair.a.post_send(message, {});
  a.ring();
  a.worker.poll(1'000'000);
  Frame* frame = nullptr;
  ASSERT_EQ(ports.first->allocate(&frame, 1), 1U);
  const std::vector<std::byte> payload(kMadLength, std::byte{0x5A});
  const Headers headers{.opcode = Opcode::kUdSendOnly,
                        .dest_qpn = kGsiQpn,
                        .deth = {.qkey = kGsiQkey, .source_qpn = kGsiQpn}};
  FrameWriter writer(*frame, FrameTemplate(pair.a.qp().attributes().path), headers, kMadLength, 1);
  writer.append(payload.data(), kMadLength);
  writer.finish();
  ASSERT_EQ(ports.first->tx_burst(0, &frame, 1, 0), 1U);
  b.worker.poll(1'000'000);
  EXPECT_TRUE(sink.came);
  EXPECT_TRUE(sink.completed);
}

}  // namespace
}  // namespace uroce::test
