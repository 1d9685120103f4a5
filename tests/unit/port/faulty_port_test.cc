#include "dataplane/port/faults/faulty_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "dataplane/port/link_port.h"
#include "dataplane/port/loopback_port.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/ecn.h"

namespace uroce {
namespace {

constexpr std::uint32_t kFrameLength = 100;
constexpr std::uint32_t kNumberAt = 60;  // offset of a frame's number
constexpr std::uint32_t kPayload = 444;
constexpr std::uint64_t kPacket = 502;  // bytes of a frame with this payload

// A sender with faults, joined to a receiver without.
class FaultyPortTest : public testing::Test {
 protected:
  void given(const Faults& faults) {
    auto [first, second] = make_link({.wire_entries = 1'024});
    sender_ = std::make_unique<FaultyPort>(std::move(first), faults);
    receiver_ = std::move(second);
  }

  // An RC WRITE MIDDLE for queue pair 17, ECT(0), with this PSN.
  void send_packet(std::uint32_t psn, bool to_receiver = true) {
    Frame* frame = nullptr;
    Port& from = to_receiver ? *sender_ : *receiver_;
    ASSERT_EQ(from.allocate(&frame, 1), 1U);
    Path path;
    path.source_gid = parse_ip("10.0.0.1").value();
    path.destination_gid = parse_ip("10.0.0.2").value();
    path.tos = static_cast<std::uint8_t>(Ecn::kCapable0);
    FrameWriter writer(*frame, FrameTemplate(path),
                       {.opcode = Opcode::kRcWriteMiddle, .dest_qpn = 17, .psn = psn}, kPayload, 0);
    const std::array<std::byte, kPayload> payload{};
    writer.append(payload.data(), payload.size());
    writer.finish();
    ASSERT_EQ(from.tx_burst(0, &frame, 1, now_), 1U);
  }

  // The packets that came out: their PSN, followed by * if marked, by ! if the ICRC is wrong.
  std::string receive_packets() {
    std::string list;
    Frame* frame = nullptr;
    sender_->rx_burst(0, &frame, 0, now_);
    while (receiver_->rx_burst(0, &frame, 1, now_) == 1) {
      const Drop drop = parse(*frame);
      list += (list.empty() ? "" : " ") + std::to_string(frame->packet.psn) +
              (ecn_of(frame->packet.tos) == Ecn::kCongested ? "*" : "") +
              (drop == Drop::kNone ? "" : "!");
      receiver_->release(&frame, 1);
    }
    return list;
  }

  void send(std::uint32_t number, std::uint16_t ether_type = kEtherTypeIpv4) {
    Frame* frame = nullptr;
    ASSERT_EQ(sender_->allocate(&frame, 1), 1U);
    std::memset(frame->data, 0, kFrameLength);
    frame->data[12] = static_cast<std::byte>(ether_type >> 8U);
    frame->data[13] = static_cast<std::byte>(ether_type & 0xFFU);
    std::memcpy(frame->data + kNumberAt, &number, sizeof number);
    frame->length = kFrameLength;
    ASSERT_EQ(sender_->tx_burst(0, &frame, 1, now_), 1U);
  }

  // The numbers of the frames that came out.
  std::vector<std::uint32_t> receive() {
    std::vector<std::uint32_t> numbers;
    Frame* frame = nullptr;
    sender_->rx_burst(0, &frame, 0, now_);  // A turn: due frames are sent.
    while (receiver_->rx_burst(0, &frame, 1, now_) == 1) {
      std::uint32_t number = 0;
      std::memcpy(&number, frame->data + kNumberAt, sizeof number);
      numbers.push_back(number);
      receiver_->release(&frame, 1);
    }
    return numbers;
  }

  std::vector<std::uint32_t> send_many(std::uint32_t count) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < count; ++i) {
      send(i);
      now_ += 1'000;
      const auto some = receive();
      all.insert(all.end(), some.begin(), some.end());
    }
    now_ += kNanosecondsPerSecond;
    const auto rest = receive();
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

  Time now_ = 0;
  std::unique_ptr<FaultyPort> sender_;
  std::unique_ptr<Port> receiver_;
};

constexpr std::uint32_t kMany = 20'000;

TEST_F(FaultyPortTest, WithoutFaultsEverythingArrivesInOrder) {
  given({});
  const auto numbers = send_many(100);
  ASSERT_EQ(numbers.size(), 100U);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_F(FaultyPortTest, LosesTheRequestedShare) {
  given({.loss = 0.1, .seed = 3});
  const auto numbers = send_many(kMany);
  EXPECT_NEAR(static_cast<double>(numbers.size()), kMany * 0.9, kMany * 0.01);
  EXPECT_EQ(sender_->fault_counts().lost, kMany - numbers.size());
}

TEST_F(FaultyPortTest, DuplicatesTheRequestedShare) {
  given({.dup = 0.05, .seed = 3});
  std::map<std::uint32_t, int> seen;
  for (const std::uint32_t number : send_many(kMany)) {
    ++seen[number];
  }
  EXPECT_EQ(seen.size(), kMany);
  const auto twice =
      std::count_if(seen.begin(), seen.end(), [](const auto& entry) { return entry.second == 2; });
  EXPECT_NEAR(static_cast<double>(twice), kMany * 0.05, kMany * 0.01);
}

TEST_F(FaultyPortTest, ReordersWithoutLosing) {
  given({.reorder = 0.05, .seed = 3});
  auto numbers = send_many(kMany);
  ASSERT_EQ(numbers.size(), kMany);
  int behind = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    behind += numbers[i] < numbers[i - 1] ? 1 : 0;
  }
  EXPECT_NEAR(behind, kMany * 0.05, kMany * 0.01);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

TEST_F(FaultyPortTest, AReorderedLastFrameStillArrives) {
  given({.reorder = 1});
  send(1);
  EXPECT_TRUE(receive().empty());
  ASSERT_NE(sender_->next_due(0), kNever);
  now_ = sender_->next_due(0);
  EXPECT_EQ(receive(), std::vector<std::uint32_t>{1});
}

TEST_F(FaultyPortTest, CorruptsOneBitAfterTheEthernetHeader) {
  given({.corrupt = 1, .seed = 5});
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    send(0);
    Frame* frame = nullptr;
    ASSERT_EQ(receiver_->rx_burst(0, &frame, 1, now_), 1U);
    int bits = 0;
    for (std::uint32_t at = 14; at < kFrameLength; ++at) {
      bits += __builtin_popcount(std::to_integer<unsigned>(frame->data[at]));
    }
    EXPECT_EQ(bits, 1);
    EXPECT_EQ(frame->data[12], std::byte{0x08});
    receiver_->release(&frame, 1);
  }
}

TEST_F(FaultyPortTest, FramesWithoutAChecksumAreLostInsteadOfCorrupted) {
  given({.corrupt = 1});
  send(1, kEtherTypeArp);
  now_ += kNanosecondsPerSecond;
  EXPECT_TRUE(receive().empty());
}

TEST_F(FaultyPortTest, DelaysByTheTimeGiven) {
  given({.delay = 20'000});
  send(1);
  now_ = 19'999;
  EXPECT_TRUE(receive().empty());
  EXPECT_EQ(sender_->next_due(0), 20'000U);
  now_ = 20'000;
  EXPECT_EQ(receive(), std::vector<std::uint32_t>{1});
}

// The inner port may hold frames back, too: a worker that sleeps must be told when they are due.
TEST_F(FaultyPortTest, ReportsWhenAFrameOfTheInnerPortIsDue) {
  auto [first, second] = make_link({});
  auto inner = std::make_unique<FaultyPort>(std::move(first), Faults{.delay = 20'000});
  Frame* frame = nullptr;
  ASSERT_EQ(inner->allocate(&frame, 1), 1U);
  ASSERT_EQ(inner->tx_burst(0, &frame, 1, 0), 1U);
  const FaultyPort outer(std::move(inner), {});
  EXPECT_EQ(outer.next_due(0), 20'000U);
}

TEST_F(FaultyPortTest, TheSameSeedDoesTheSame) {
  const Faults faults{
      .loss = 0.1, .dup = 0.1, .reorder = 0.1, .corrupt = 0.1, .delay = 3'000, .seed = 11};
  given(faults);
  const auto first = send_many(2'000);
  now_ = 0;
  given(faults);
  EXPECT_EQ(send_many(2'000), first);
  now_ = 0;
  given({.loss = 0.1, .dup = 0.1, .reorder = 0.1, .corrupt = 0.1, .delay = 3'000, .seed = 12});
  EXPECT_NE(send_many(2'000), first);
}

TEST_F(FaultyPortTest, WhenDisabledPassesEverything) {
  given({.loss = 1});
  sender_->set_enabled(false);
  EXPECT_EQ(send_many(50).size(), 50U);
}

TEST_F(FaultyPortTest, ReceivesWithFaultsToo) {
  auto [first, second] = make_link({});
  FaultyPort port(std::move(first), {.loss = 1});
  Frame* frame = nullptr;
  ASSERT_EQ(second->allocate(&frame, 1), 1U);
  frame->length = kFrameLength;
  ASSERT_EQ(second->tx_burst(0, &frame, 1, 0), 1U);
  EXPECT_EQ(port.rx_burst(0, &frame, 1, 0), 0U);
  EXPECT_EQ(port.fault_counts().lost, 1U);
}

TEST_F(FaultyPortTest, ABottleneckSpacesMarksAndDrops) {
  Faults faults;
  faults.bottleneck = {
      .rate = 8'000'000'000, .queue = 5 * kPacket, .kmin = 2 * kPacket, .kmax = 2 * kPacket};
  given(faults);
  for (std::uint32_t psn = 0; psn < 7; ++psn) {
    send_packet(psn);
  }
  EXPECT_EQ(receive_packets(), "");
  now_ = 2 * kPacket;
  EXPECT_EQ(receive_packets(), "0 1") << "one per 502 ns";
  EXPECT_EQ(sender_->next_due(0), 3 * kPacket);
  now_ = kNanosecondsPerSecond;
  EXPECT_EQ(receive_packets(), "2* 3* 4*") << "their ICRC and checksum are right";
  EXPECT_EQ(sender_->fault_counts().marked, 3U);
  EXPECT_EQ(sender_->fault_counts().overflowed, 2U);
}

TEST_F(FaultyPortTest, EventsApplyToThePacketsTheyName) {
  Faults faults;
  for (const char* text : {"qp:0/psn:1:drop", "qp:0/psn:2:ce", "qp:0/psn:3:corrupt",
                           "qp:0/psn:4:dup", "qp:0/psn:5:late", "qp:0/psn:1/iter:3:drop"}) {
    faults.events.push_back(parse_fault_event(text).value());
  }
  given(faults);
  for (std::uint32_t psn = 100; psn < 108; ++psn) {
    send_packet(psn);
  }
  EXPECT_EQ(receive_packets(), "100 102* 102! 104 104 106 105 107")
      << "the corrupted packet has a different PSN";
  for (int i = 0; i < 3; ++i) {
    send_packet(101);
  }
  EXPECT_EQ(receive_packets(), "101 101") << "the third one is lost as well";
}

TEST_F(FaultyPortTest, EventsApplyToReceivedPacketsToo) {
  Faults faults;
  faults.events = {parse_fault_event("qp:0/psn:1:drop").value()};
  given(faults);
  for (std::uint32_t psn = 5; psn < 8; ++psn) {
    send_packet(psn, false);
  }
  std::array<Frame*, 8> frames;
  ASSERT_EQ(sender_->rx_burst(0, frames.data(), 8, now_), 2U);
  sender_->release(frames.data(), 2);
}

TEST_F(FaultyPortTest, EventsSeeALoopbackFrameOnce) {
  Faults faults;
  faults.events = {parse_fault_event("qp:0/iter:2:drop").value()};
  sender_ = std::make_unique<FaultyPort>(std::make_unique<LoopbackPort>(1'500, 1), faults);
  send_packet(5);
  std::array<Frame*, 8> frames;
  ASSERT_EQ(sender_->rx_burst(0, frames.data(), 8, now_), 1U);
  sender_->release(frames.data(), 1);
  send_packet(5);
  EXPECT_EQ(sender_->rx_burst(0, frames.data(), 8, now_), 0U);
}

// Answers that no other port gives.
class OddPort final : public Port {
 public:
  std::uint32_t rx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t tx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t allocate(Frame**, std::uint32_t) override { return 0; }
  void release(Frame**, std::uint32_t) override {}
  [[nodiscard]] PortInfo info() const override {
    PortInfo info;
    info.queues = 2;
    return info;
  }
  [[nodiscard]] PortCounters counters() const override { return {.rx_frames = 3}; }
  [[nodiscard]] std::uint32_t generation() const override { return 4; }
  [[nodiscard]] std::uint32_t mtu_to(const Gid&, const Gid&) const override { return 5; }
  [[nodiscard]] int wait_descriptor(std::uint16_t queue) const override { return 6 + queue; }
  [[nodiscard]] Duration signal_delay_max(std::uint16_t queue) const override { return 8 + queue; }
  [[nodiscard]] bool needs_polling() const override { return true; }
  bool detach() override { return true; }
};

// Whatever the worker asks about the port itself is passed on.
TEST(FaultyPort, SaysWhatThePortSays) {
  FaultyPort port(std::make_unique<OddPort>(), {});
  EXPECT_EQ(port.info().queues, 2U);
  EXPECT_EQ(port.counters().rx_frames, 3U);
  EXPECT_EQ(port.generation(), 4U);
  EXPECT_EQ(port.mtu_to(Gid{}, Gid{}), 5U);
  EXPECT_EQ(port.wait_descriptor(1), 7);
  EXPECT_EQ(port.signal_delay_max(1), 9U);
  EXPECT_TRUE(port.needs_polling());
  EXPECT_TRUE(port.detach());
}

TEST_F(FaultyPortTest, AFullLanePushesBackAndReleasesItsFramesAtTheEnd) {
  auto [first, second] = make_link({.frames = 4'096});
  {
    FaultyPort port(std::move(first), {.delay = kNanosecondsPerSecond});
    std::uint32_t taken = 0;
    Frame* frame = nullptr;
    while (port.allocate(&frame, 1) == 1) {
      frame->length = kFrameLength;
      if (port.tx_burst(0, &frame, 1, 0) == 0) {
        port.release(&frame, 1);
        break;
      }
      ++taken;
    }
    EXPECT_GT(taken, 500U);
    EXPECT_LT(taken, 4'096U);
  }
  std::vector<Frame*> all(4'096);
  EXPECT_EQ(second->allocate(all.data(), 4'096), 4'096U);
  second->release(all.data(), 4'096);
}

}  // namespace
}  // namespace uroce
