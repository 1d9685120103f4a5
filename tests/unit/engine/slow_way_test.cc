// Memory that helpers access through /proc/PID/mem ends up with the same contents as mapped memory:
// the same messages through two pairs of stations. A copy that a helper doesn't finish in time
// fails.

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/time/running_time.h"
#include "tests/unit/engine/worker_fixture.h"
#include "tests/unit/mmu/held_up.h"

namespace uroce::test {
namespace {

constexpr std::size_t kMemoryBytes = 256U << 10U;
constexpr std::size_t kLengthMax = 40'000;
constexpr int kRounds = 60;
constexpr std::uint64_t kMessages = 5;  // per round, one after the other

PairConfig config_of(bool slow_way, std::uint32_t path_mtu) {
  PairConfig config;
  config.path_mtu = path_mtu;
  for (EndpointConfig* end : {&config.a, &config.b}) {
    end->memory_bytes = kMemoryBytes;
    end->slow_way = slow_way;
  }
  return config;
}

struct Message {
  abi::WrOpcode opcode = abi::WrOpcode::kRdmaWrite;
  struct Part {
    std::size_t at, length;
  };
  std::vector<Part> here{}, there{};  // there: for SENDs
  std::size_t remote = 0;
};

// A message of a random kind between random places.
Message draw(std::mt19937& random) {
  constexpr std::array kOpcodes{abi::WrOpcode::kRdmaWrite, abi::WrOpcode::kRdmaRead,
                                abi::WrOpcode::kSend};
  const auto below = [&](std::size_t end) { return random() % end; };
  Message message{.opcode = kOpcodes[below(kOpcodes.size())]};
  const auto list = [&](std::size_t parts) {
    std::vector<Message::Part> made;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t length = 1 + below(below(2) == 0 ? kLengthMax / 3 : 100);
      made.push_back({below(kMemoryBytes - length), length});
    }
    return made;
  };
  message.here = list(1 + below(3));
  message.there = {{below(kMemoryBytes - kLengthMax - 10), 10},
                   {below(kMemoryBytes - 5'000), 5'000},
                   {below(kMemoryBytes - kLengthMax), kLengthMax}};
  message.remote = below(kMemoryBytes - kLengthMax);
  return message;
}

std::vector<abi::Sge> sges_of(const Endpoint& end, const std::vector<Message::Part>& parts) {
  std::vector<abi::Sge> sges;
  for (const Message::Part& part : parts) {
    sges.push_back(end.sge(part.at, part.length));
  }
  return sges;
}

// From a to b, or the other way round.
void post(Stations& stations, const Message& message, std::uint64_t id, bool from_a) {
  Endpoint& from = from_a ? stations.pair.a : stations.pair.b;
  Endpoint& to = from_a ? stations.pair.b : stations.pair.a;
  if (message.opcode == abi::WrOpcode::kSend) {
    to.post_recv(id, sges_of(to, message.there));
  }
  from.post_send(rdma_wr(id, message.opcode, to, message.remote), sges_of(from, message.here));
  (from_a ? stations.a : stations.b).ring();
}

void run(std::uint32_t path_mtu) {
  std::mt19937 random(path_mtu);
  PagingQueues paging_a(1, {}), paging_b(1, {});
  Stations direct(config_of(false, path_mtu)),
      slow(config_of(true, path_mtu), {}, &paging_b, &paging_a);
  for (Stations* stations : {&direct, &slow}) {
    fill_pattern(stations->pair.a.memory, 1);
    fill_pattern(stations->pair.b.memory, 2);
  }
  for (int round = 0; round < kRounds; ++round) {
    const bool from_a = random() % 2 == 0;
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Message message = draw(random);
      for (Stations* stations : {&direct, &slow}) {
        post(*stations, message, i, from_a);
        Endpoint& from = from_a ? stations->pair.a : stations->pair.b;
        Endpoint& to = from_a ? stations->pair.b : stations->pair.a;
        std::optional<abi::Cqe> sent;
        stations->settle_until([&] { return (sent = from.poll_send()).has_value(); });
        EXPECT_EQ(sent->status, abi::WcStatus::kSuccess);
        EXPECT_EQ(to.poll_recv().has_value(), message.opcode == abi::WrOpcode::kSend);
      }
    }
    ASSERT_EQ(direct.pair.a.memory, slow.pair.a.memory) << "round " << round;
    ASSERT_EQ(direct.pair.b.memory, slow.pair.b.memory) << "round " << round;
  }
}

TEST(SlowWay, LeavesTheSameMemoryAsTheDirectWay) { run(4096); }
TEST(SlowWay, LeavesTheSameMemoryAsTheDirectWayInSmallPackets) { run(256); }

// A queue pair whose copy found no room, since its program has the maximum number of copies under
// way. It is resumed as soon as any copies of the program are finished.
TEST(SlowWay, AQueuePairWithoutRoomGoesOnWhenCopiesAreDone) {
  PairConfig config;
  config.b.slow_way = true;
  PagingQueues paging(1, {});
  Stations stations(config, {}, &paging);
  config.a.qpn = 27;
  config.b.qpn = 28;
  config.a.keys = &stations.pair.a.keys();
  config.b.keys = &stations.pair.b.keys();
  QpPair other(config);
  stations.b.add(other.b.qp());
  const std::uint32_t slot = stations.a.add(other.a.qp());
  const auto notifier = std::make_shared<CopyNotifier>(nullptr);
  std::vector<std::unique_ptr<ProcMemCopy>> all;
  HeldUp held(*stations.pair.b.program());
  for (bool room = true; room;) {
    all.push_back(std::make_unique<ProcMemCopy>());
    all.back()->kind = ProcMemCopy::Kind::kWrite;
    all.back()->notifier = notifier;
    room = stations.pair.b.program()->put(all.back().get());
  }
  all.pop_back();
  stations.post_write(1, 8);
  stations.settle();
  held.release();
  while (all.back()->state != ProcMemCopy::State::kDone) {
    std::this_thread::yield();
  }
  stations.settle();
  EXPECT_EQ(stations.b.worker.counters().copies, 0U);
  const abi::Sge sge = other.a.sge(0, 8);
  other.a.post_send(rdma_wr(2, abi::WrOpcode::kRdmaWrite, other.b, 0), {&sge, 1});
  stations.a.ring(slot);
  for (stations.settle(); !other.a.poll_send(); stations.settle()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(stations.b.worker.counters().copies, 2U);
  stations.settle_until([&] { return stations.pair.a.poll_send().has_value(); });
  stations.a.worker.remove_qp(other.a.qp());
  stations.b.worker.remove_qp(other.b.qp());
}

class LateTest : public testing::TestWithParam<abi::WrOpcode> {};

TEST_P(LateTest, ALateHelperFailsOnlyThatRequest) {
  PairConfig config;
  config.b.slow_way = true;
  PagingQueues paging(1, {});
  Stations stations(config, {}, &paging);
  fill_pattern(stations.pair.a.memory, 1);
  const std::vector<std::byte> before = stations.pair.b.memory;
  HeldUp held(*stations.pair.b.program());
  const abi::Sge sge = stations.pair.a.sge(0, 8);
  stations.pair.a.post_send(rdma_wr(1, GetParam(), stations.pair.b, 0), {&sge, 1});
  stations.a.ring();
  stations.settle();
  EXPECT_FALSE(stations.pair.a.poll_send().has_value());
  EXPECT_EQ(stations.b.worker.counters().copies, 1U);
  // Time in which the worker doesn't run isn't waiting.
  stations.now += ProcMemCopy::kTimeout;
  stations.b.worker.poll(stations.now);
  EXPECT_EQ(stations.b.worker.counters().copies_late, 0U);
  const Time end = stations.now + ProcMemCopy::kTimeout;
  while (stations.b.worker.counters().copies_late == 0 && stations.now < end) {
    EXPECT_LE(stations.b.worker.next_deadline(), stations.now + RunningTime::kStepMax);
    stations.now += RunningTime::kStepMax;
    stations.b.worker.poll(stations.now);
  }
  std::optional<abi::Cqe> sent;
  stations.settle_until([&] { return (sent = stations.pair.a.poll_send()).has_value(); });
  EXPECT_EQ(stations.b.worker.counters().copies_late, 1U);
  EXPECT_EQ(stations.pair.b.qp().state(), QpState::kErr);
  held.release();
  // A copy that was given up is never done; the end of a later copy shows that its turn has passed.
  HeldUp next(*stations.pair.b.program());
  next.release();
  EXPECT_EQ(stations.pair.b.memory, before);
}

INSTANTIATE_TEST_SUITE_P(Opcodes, LateTest,
                         testing::Values(abi::WrOpcode::kRdmaWrite, abi::WrOpcode::kRdmaRead,
                                         abi::WrOpcode::kAtomicFetchAndAdd),
                         [](const auto& of) {
                           return "opcode" + std::to_string(static_cast<int>(of.param));
                         });

// A card sends none for memory that isn't paged on demand, and such peers don't expect any.
class SlowWayWithoutRnrRetries : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 400'000;  // more packets than may wait

  static PairConfig config() {
    PairConfig config;
    config.rnr_retry = 0;
    config.b.slow_way = true;
    return config;
  }
  void expect_success(std::uint64_t count) {
    std::optional<abi::Cqe> sent;
    for (std::uint64_t i = 0; i < count; ++i) {
      while (!(sent = stations_.pair.a.poll_send())) {  // without that time passes
        stations_.settle();
        std::this_thread::yield();
      }
      EXPECT_EQ(sent->status, abi::WcStatus::kSuccess);
    }
    EXPECT_EQ(stations_.pair.b.qp().counters().rnr_naks_sent, 0U);
    EXPECT_EQ(stations_.pair.a.qp().counters().local_ack_timeout_err, 0U);
  }

  PagingQueues paging_{1, {}};
  Stations stations_{config(), {.wire_entries = 1'024, .frames = 8'192}, &paging_};
};

TEST_F(SlowWayWithoutRnrRetries, ALateHelperEndsNoConnection) {
  fill_pattern(stations_.pair.a.memory, 7);
  {
    const HeldUp held(*stations_.pair.b.program());
    stations_.post_write(1, kBytes);
    stations_.settle();
    EXPECT_GT(stations_.b.worker.counters().drops[Drop::kParkFull], 0U);
  }
  expect_success(1);
  EXPECT_GE(stations_.pair.b.qp().counters().naks_sent, 1U) << "it asks for what it dropped";
  EXPECT_TRUE(std::equal(stations_.pair.a.memory.begin(), stations_.pair.a.memory.begin() + kBytes,
                         stations_.pair.b.memory.begin()));
}

TEST_F(SlowWayWithoutRnrRetries, AFailedQueuePairAsksForNothing) {
  {
    const HeldUp held(*stations_.pair.b.program());
    stations_.post_write(1, kBytes);
    stations_.settle();
    ASSERT_GT(stations_.b.worker.counters().drops[Drop::kParkFull], 0U);
    stations_.b.worker.modify_qp(stations_.pair.b.qp(), {.state = QpState::kErr}, kQpMaskState);
  }
  HeldUp behind_it(*stations_.pair.b.program());
  behind_it.release();
  stations_.settle();
  stations_.b.worker.resume(stations_.pair.b.qp());
  stations_.settle();
  EXPECT_EQ(stations_.pair.b.qp().counters().naks_sent, 0U);
}

// Otherwise the peer would use up its retries.
TEST(SlowWay, APeerIsToldToWaitForAVeryLateHelper) {
  PairConfig config;
  config.b.slow_way = true;
  PagingQueues paging{1, {}};
  Stations stations(config, {}, &paging);
  const HeldUp held(*stations.pair.b.program());
  stations.post_write(1, 100);
  stations.settle();
  const auto& counters = stations.pair.b.qp().counters();
  EXPECT_EQ(counters.rnr_naks_sent, 0U);
  ASSERT_NE(stations.a.worker.next_deadline(), kNever);
  stations.now = stations.a.worker.next_deadline();
  stations.settle();
  EXPECT_EQ(stations.pair.a.qp().counters().local_ack_timeout_err, 1U);
  EXPECT_EQ(counters.rnr_naks_sent, 1U) << "at the first timeout";
}

}  // namespace
}  // namespace uroce::test
