// A request that was begun, parked, and then dropped because too many frames are parked: on a
// transport without retransmission the next request is another message, and is stored.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "mmu/mirror/mirror.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"
#include "tests/unit/mmu/held_up.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kUntouched = 0x7000'0000'0000;  // never populated
constexpr std::size_t kLongBytes = 256U << 10U;         // more packets than a queue pair may park
constexpr std::size_t kSentBytes = 64;

PairConfig unreliable_and_slow(std::uint64_t user_of_b) {
  PairConfig config;
  config.b.user = user_of_b;
  config.a.type = config.b.type = QpType::kUc;
  config.b.slow_way = true;
  return config;
}

class LostParked : public testing::Test {
 protected:
  // The others' user is 0.
  explicit LostParked(std::uint64_t user_of_b = 0)
      : stations_(unreliable_and_slow(user_of_b), {.wire_entries = 1'024, .frames = 8'192},
                  &queues_) {
    Region::Config region;
    region.pd = stations_.pair.b.qp().config().pd;
    region.access = kAccessLocalWrite | kAccessRemoteWrite;
    region.iova = region.program_address = kUntouched;
    region.length = kLongBytes;
    region.mirror = std::make_shared<Mirror>(quiescence_, UniqueFd());
    untouched_ = stations_.pair.b.keys().add(std::make_unique<Region>(std::move(region))).value();
  }
  ~LostParked() override {
    for (QpPair& other : others_) {
      stations_.a.worker.remove_qp(other.a.qp());
      stations_.b.worker.remove_qp(other.b.qp());
    }
  }

  // Lets other queue pairs park frames at b up to the worker's limit.
  void take_the_room() {
    for (std::uint32_t i = 0; i < Worker::kParkedTotalMax / Worker::kParkedMax; ++i) {
      PairConfig config;
      config.a.qpn = 100 + 2 * i;
      config.b.qpn = 101 + 2 * i;
      config.a.memory_bytes = kLongBytes;
      config.a.keys = &stations_.pair.a.keys();
      config.b.keys = &stations_.pair.b.keys();
      QpPair& other = others_.emplace_back(config);
      abi::SendWr wr = rdma_wr(1, abi::WrOpcode::kRdmaWrite, other.b, 0);
      wr.remote_address = kUntouched;
      wr.rkey = untouched_;
      const abi::Sge sge = other.a.sge(0, kLongBytes);
      other.a.post_send(wr, {&sge, 1});
      stations_.b.add(other.b.qp());
      stations_.a.ring(stations_.a.add(other.a.qp()));
    }
    stations_.settle();
  }
  // Their faults fail, and they end.
  void give_the_room_back() {
    while (PageFault* const fault = queues_.faults.next()) {
      fault->outcome = Access::kLost;
      fault->failed_page = page_floor(fault->request.address);
      queues_.faults.resume(fault);
    }
    stations_.settle();
  }
  // Sends a message of this length; b's helper has finished its copies.
  void send(std::byte content) {
    std::fill_n(stations_.pair.a.memory.begin(), kSentBytes, content);
    stations_.pair.a.post_send(send_wr(1, abi::WrOpcode::kSend),
                               std::array{stations_.pair.a.sge(0, kSentBytes)});
    stations_.a.ring();
    stations_.settle();
    HeldUp behind_it(*stations_.pair.b.program());
    behind_it.release();
    stations_.settle();
  }
  std::uint64_t dropped() {
    note_drops(stations_.b.worker.counters().drops);
    return stations_.b.worker.counters().drops[Drop::kParkFull];
  }

  Quiescence quiescence_;
  PagingQueues queues_{1, {}};
  Stations stations_;
  std::uint32_t untouched_ = 0;
  std::deque<QpPair> others_;
};

TEST_F(LostParked, TheNextMessageIsStored) {
  stations_.pair.b.post_recv(1, std::array{stations_.pair.b.sge(0, kSentBytes)});
  take_the_room();
  const std::uint64_t before = dropped();
  send(std::byte{1});
  ASSERT_EQ(dropped(), before + 1);
  EXPECT_FALSE(stations_.pair.b.poll_recv());
  give_the_room_back();
  send(std::byte{2});
  std::optional<abi::Cqe> received;
  stations_.settle_until([&] { return (received = stations_.pair.b.poll_recv()).has_value(); });
  EXPECT_EQ(received->status, abi::WcStatus::kSuccess);
  EXPECT_EQ(
      std::count(stations_.pair.b.memory.begin(), stations_.pair.b.memory.end(), std::byte{2}),
      static_cast<std::ptrdiff_t>(kSentBytes));
}

class ParkedBesideAnotherUser : public LostParked {
 protected:
  ParkedBesideAnotherUser() : LostParked(1'000) {}
};

TEST_F(ParkedBesideAnotherUser, AFrameFindsRoom) {
  stations_.pair.b.post_recv(1, std::array{stations_.pair.b.sge(0, kSentBytes)});
  take_the_room();
  const std::uint64_t before = dropped();
  send(std::byte{1});
  EXPECT_EQ(dropped(), before);
  std::optional<abi::Cqe> received;
  stations_.settle_until([&] { return (received = stations_.pair.b.poll_recv()).has_value(); });
  EXPECT_EQ(received->status, abi::WcStatus::kSuccess);
}

}  // namespace
}  // namespace uroce::test
