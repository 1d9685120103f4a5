#include "dataplane/port/faulty_port.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "dataplane/port/link_port.h"

namespace uroce {
namespace {

constexpr std::uint32_t kFrameLength = 100;
constexpr std::uint32_t kNumberAt = 60;  // where a frame carries its number

// A sender with faults, joined to a receiver without.
class FaultyPortTest : public testing::Test {
 protected:
  void given(const Faults& faults) {
    auto [first, second] = make_link({.wire_entries = 1'024});
    sender_ = std::make_unique<FaultyPort>(std::move(first), faults);
    receiver_ = std::move(second);
  }

  void send(std::uint32_t number, std::uint16_t ether_type = 0x0800) {
    Frame* frame = nullptr;
    ASSERT_EQ(sender_->allocate(&frame, 1), 1U);
    std::memset(frame->data, 0, kFrameLength);
    frame->data[12] = static_cast<std::byte>(ether_type >> 8U);
    frame->data[13] = static_cast<std::byte>(ether_type & 0xFFU);
    std::memcpy(frame->data + kNumberAt, &number, sizeof number);
    frame->length = kFrameLength;
    ASSERT_EQ(sender_->tx_burst(0, &frame, 1, now_), 1U);
  }

  // What came out, as numbers, with how many bits of the frame are set besides.
  std::vector<std::uint32_t> receive() {
    std::vector<std::uint32_t> numbers;
    Frame* frame = nullptr;
    sender_->rx_burst(0, &frame, 0, now_);  // A turn: what is due leaves.
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

TEST_F(FaultyPortTest, LosesAsManyAsAsked) {
  given({.loss = 0.1, .seed = 3});
  const auto numbers = send_many(kMany);
  EXPECT_NEAR(static_cast<double>(numbers.size()), kMany * 0.9, kMany * 0.01);
  EXPECT_EQ(sender_->fault_counts().lost, kMany - numbers.size());
}

TEST_F(FaultyPortTest, RepeatsAsManyAsAsked) {
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

TEST_F(FaultyPortTest, CorruptsOneBitBehindTheEthernetHeader) {
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

TEST_F(FaultyPortTest, WhatHasNoChecksumIsLostInsteadOfCorrupted) {
  given({.corrupt = 1});
  send(1, 0x0806);
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

TEST_F(FaultyPortTest, DisabledItLetsEverythingThrough) {
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

TEST_F(FaultyPortTest, AFullLanePushesBackAndGivesFramesBackAtTheEnd) {
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
