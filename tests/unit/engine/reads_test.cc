// READs are requested only as fast as their responses can be received: a worker's ring doesn't
// overflow with responses to its own queue pairs, even if it isn't emptied for a while.

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "dataplane/engine/worker_state.h"
#include "dataplane/qp/recovery/read_credits.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kReadMtu = 256;

// Two workers at each end. a's queue pair belongs to worker 1, and responses arrive at worker 0.
class ReadsTest : public testing::Test {
 protected:
  ReadsTest() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      a_[i] = std::make_unique<Worker>(Worker::Config{
          .index = i, .workers = 2, .ports = {ports_.first.get()}, .keys = &pair_.a.keys()});
      b_[i] = std::make_unique<Worker>(Worker::Config{
          .index = i, .workers = 2, .ports = {ports_.second.get()}, .keys = &pair_.b.keys()});
      a_[i]->set_addresses(0, {parse_ip("10.0.0.1").value()});
      b_[i]->set_addresses(0, {parse_ip("10.0.0.2").value()});
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      a_[i]->set_peers(std::array{a_[0].get(), a_[1].get()});
      b_[i]->set_peers(std::array{b_[0].get(), b_[1].get()});
    }
    a_[1]->add_qp(pair_.a.qp());
    b_[0]->add_qp(pair_.b.qp());
  }

  void post_read(std::uint64_t id, std::uint32_t frames) {
    const abi::Sge sge = pair_.a.sge(0, std::size_t{frames} * kReadMtu);
    pair_.a.post_send(rdma_wr(id, abi::WrOpcode::kRdmaRead, pair_.b, 0), {&sge, 1});
    pair_.a.ring(now_);
    a_[1]->schedule(pair_.a.qp());
  }

  // The owner takes one turn, all others as many as they have work for.
  void owner_falls_behind() {
    a_[1]->poll(now_);
    for (bool busy = true; busy;) {
      busy = b_[1]->poll(now_);
      busy |= b_[0]->poll(now_);
      busy |= a_[0]->poll(now_);
    }
  }

  [[nodiscard]] std::uint64_t ring_full() const {
    note_drops(a_[0]->counters().drops);
    return a_[0]->counters().drops[Drop::kRingFull];
  }

  // Runs turns of the owner until `count` READs are done.
  void expect_done(std::uint64_t count) {
    for (std::uint64_t id = 1; id <= count; ++id) {
      std::optional<abi::Cqe> cqe;
      for (int turn = 0; turn < 100 && !(cqe = pair_.a.poll_send()); ++turn) {
        owner_falls_behind();
      }
      ASSERT_TRUE(cqe) << id;
      EXPECT_EQ(cqe->wr_id, id);
      EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
    }
    const RoceCounters& counters = pair_.a.qp().counters();
    EXPECT_EQ(counters.implied_nak_seq_err + counters.local_ack_timeout_err, 0U);
  }

  QpPair pair_{{.path_mtu = kReadMtu, .max_rd_atomic = 16}};
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports_ =
      make_link({.queues = 2, .wire_entries = 8'192, .frames = 16'384});
  std::array<std::unique_ptr<Worker>, 2> a_, b_;
  Time now_ = 1'000'000;
};

TEST_F(ReadsTest, ResponsesFitIntoTheOwnersRing) {
  post_read(1, 500);
  post_read(2, 1'600);  // each more than there is room for, so it goes alone
  post_read(3, 500);
  post_read(4, 1'500);
  owner_falls_behind();
  EXPECT_EQ(pair_.a.qp().read_frames_out(), 500U);
  expect_done(4);
  EXPECT_EQ(ring_full(), 0U);
}

TEST_F(ReadsTest, ManySmallOnesAreNotHeldBack) {
  for (std::uint64_t id = 1; id <= 8; ++id) {
    post_read(id, 64);
  }
  owner_falls_behind();
  EXPECT_EQ(pair_.a.qp().read_frames_out(), 512U);
  expect_done(8);
  EXPECT_EQ(ring_full(), 0U);
}

// READs that found no room go on in order, whatever became of those before them: a READ that
// completes, one whose queue pair fails, one whose queue pair is removed while it waits.
TEST(Reads, ThatWaitGoOnInTurn) {
  constexpr std::uint32_t kFrames = 1'400;
  Stations stations({.path_mtu = kReadMtu});
  // The workers don't have these queue pairs' keys, so their READs end with an error.
  QpPair second({.a = {.qpn = 33}, .b = {.qpn = 34}, .path_mtu = kReadMtu});
  QpPair third({.a = {.qpn = 35}, .b = {.qpn = 36}, .path_mtu = kReadMtu});
  QpPair fourth({.a = {.qpn = 37}, .b = {.qpn = 38}, .path_mtu = kReadMtu});
  const abi::Sge sge = stations.pair.a.sge(0, kFrames * kReadMtu);
  stations.pair.a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, stations.pair.b, 0), {&sge, 1});
  stations.a.ring();
  stations.a.worker.poll(stations.now);
  ASSERT_EQ(stations.pair.a.qp().read_frames_out(), kFrames);
  for (QpPair* pair : {&second, &third, &fourth}) {
    stations.a.worker.add_qp(pair->a.qp());
    stations.b.worker.add_qp(pair->b.qp());
    const abi::Sge own = pair->a.sge(0, kFrames * kReadMtu);
    pair->a.post_send(rdma_wr(2, abi::WrOpcode::kRdmaRead, pair->b, 0), {&own, 1});
    pair->a.ring(stations.now);
    stations.a.worker.schedule(pair->a.qp());
    stations.a.worker.poll(stations.now);
    EXPECT_EQ(pair->a.qp().read_frames_out(), 0U);
    EXPECT_EQ(pair->a.qp().read_frames_wanted(), kFrames);
  }
  stations.a.worker.remove_qp(third.a.qp());
  stations.settle();
  const auto done = stations.pair.a.poll_send();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, abi::WcStatus::kSuccess);
  for (QpPair* pair : {&second, &fourth}) {
    const auto failed = pair->a.poll_send();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->status, abi::WcStatus::kRemAccessErr);
  }
  for (QpPair* pair : {&second, &third, &fourth}) {
    stations.a.worker.remove_qp(pair->a.qp());
    stations.b.worker.remove_qp(pair->b.qp());
  }
}

// One connection in each of two daemons, with READs that don't fit beside each other.
class TwoReaders : public testing::Test {
 protected:
  static constexpr std::uint32_t kFrames = 1'600;

  explicit TwoReaders(std::uint8_t timeout = 0, std::uint32_t first_qpn = 17)
      : stations_({.a = {.qpn = first_qpn}, .path_mtu = kReadMtu, .timeout = timeout}) {
    stations_.a.add(other_.a.qp());
    stations_.b.add(other_.b.qp());
  }

  void post_read(QpPair& pair) {
    const abi::Sge sge = pair.a.sge(0, kFrames * kReadMtu);
    pair.a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, pair.b, 0), {&sge, 1});
    stations_.a.ring(&pair == &other_ ? 1 : 0);
    stations_.settle();
  }
  // Its peer is gone.
  void post_read_to_nobody() {
    stations_.b.worker.remove_qp(stations_.pair.b.qp());
    post_read(stations_.pair);
    ASSERT_EQ(stations_.pair.a.qp().read_frames_out(), kFrames);
  }

  Stations stations_;
  QpPair other_{{.a = {.qpn = 33, .keys = &stations_.pair.a.keys()},
                 .b = {.qpn = 34, .keys = &stations_.pair.b.keys()},
                 .path_mtu = kReadMtu,
                 .timeout = 0}};
};

// Without a timer nothing else would end that wait.
TEST_F(TwoReaders, AReadThatNobodyAnswersHoldsUpNoOther) {
  post_read_to_nobody();
  post_read(other_);
  EXPECT_EQ(other_.a.qp().read_frames_wanted(), kFrames);
  const Time end = stations_.now + 2 * kReadsSilentMax;
  std::optional<abi::Cqe> done;
  while (!done && stations_.a.worker.next_deadline() <= end) {
    stations_.now = stations_.a.worker.next_deadline();
    stations_.settle();
    done = other_.a.poll_send();
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, abi::WcStatus::kSuccess);
  stations_.now = end;
  stations_.settle();
  EXPECT_EQ(stations_.a.worker.next_deadline(), kNever) << "no READ waits any more";
}

// The first reader has the last place in a table that is large.
class TwoReadersInALargeTable : public TwoReaders {
 protected:
  static constexpr std::uint32_t kPlaces = 1U << 17U;

  TwoReadersInALargeTable() : TwoReaders(0, kPlaces - 1) { stations_.a.add(third_.qp()); }

  Endpoint third_{{.qpn = kPlaces / 2 - 1, .memory_bytes = 4'096}};
};

TEST_F(TwoReadersInALargeTable, AReadThatNobodyAnswersIsFoundInLaterTurns) {
  post_read_to_nobody();
  post_read(other_);
  Worker& worker = stations_.a.worker;
  stations_.now = worker.next_deadline();
  std::uint32_t turns = 0;
  for (; turns < kPlaces && other_.a.qp().read_frames_wanted() != 0; ++turns) {
    EXPECT_LE(worker.next_deadline(), stations_.now);
    worker.poll(stations_.now);
  }
  EXPECT_EQ(turns, kPlaces / kReadsCheckedMax);
  stations_.settle();
  const auto done = other_.a.poll_send();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, abi::WcStatus::kSuccess);
}

// In SQD, where nothing new is begun, and its peer reads from it all the time, so it has work in
// every turn. A READ that waited for credits then isn't waited for.
TEST_F(TwoReaders, AReadThatMayNotBeginHoldsUpNoOtherWhileItsQueuePairAnswers) {
  Endpoint& first = stations_.pair.a;
  const abi::Sge sge = first.sge(0, kFrames * kReadMtu);
  first.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, stations_.pair.b, 0), {&sge, 1});
  stations_.a.ring();
  stations_.a.worker.poll(stations_.now);
  const abi::Sge own = other_.a.sge(0, kFrames * kReadMtu);
  other_.a.post_send(rdma_wr(2, abi::WrOpcode::kRdmaRead, other_.b, 0), {&own, 1});
  stations_.a.ring(1);
  stations_.a.worker.poll(stations_.now);
  ASSERT_EQ(other_.a.qp().read_frames_wanted(), kFrames);
  QpAttributes attributes = other_.a.qp().attributes();
  attributes.state = QpState::kSqd;
  other_.a.modify(attributes, kQpMaskState, stations_.now);

  const auto read_from_it = [&] {
    const abi::Sge there = other_.b.sge(0, kFrames * kReadMtu);
    other_.b.post_send(rdma_wr(3, abi::WrOpcode::kRdmaRead, other_.a, 0), {&there, 1});
    stations_.b.ring(1);
  };
  const auto wait_for_first = [&] {
    std::optional<abi::Cqe> done;
    for (int turn = 0; turn < 1'000 && !done; ++turn) {
      stations_.now += kReadsSilentMax / 100;
      stations_.b.worker.poll(stations_.now);
      stations_.a.worker.poll(stations_.now);
      if (other_.b.poll_send()) {
        read_from_it();
      }
      done = first.poll_send();
    }
    return done;
  };
  read_from_it();
  read_from_it();
  ASSERT_TRUE(wait_for_first());
  const abi::Sge small = first.sge(0, 8);
  first.post_send(rdma_wr(4, abi::WrOpcode::kRdmaRead, stations_.pair.b, 0), {&small, 1});
  stations_.a.ring();
  EXPECT_TRUE(wait_for_first());
}

// Each turn of the peer brings a burst of the long READ's responses.
TEST_F(TwoReaders, AReadThatIsAnsweredSlowlyHoldsUpNoOther) {
  const abi::Sge sge = stations_.pair.a.sge(0, kFrames * kReadMtu);
  stations_.pair.a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, stations_.pair.b, 0), {&sge, 1});
  stations_.a.ring();
  stations_.a.worker.poll(stations_.now);
  const abi::Sge short_sge = other_.a.sge(0, 8);
  other_.a.post_send(rdma_wr(2, abi::WrOpcode::kRdmaRead, other_.b, 0), {&short_sge, 1});
  stations_.a.ring(1);
  stations_.a.worker.poll(stations_.now);
  EXPECT_EQ(other_.a.qp().read_frames_wanted(), 1U);
  std::uint32_t slices = 0;
  while (other_.a.qp().read_frames_wanted() != 0 && stations_.pair.a.qp().read_frames_out() != 0) {
    stations_.now += kReadsSilentMax * 9 / 10;
    stations_.b.worker.poll(stations_.now);
    stations_.a.worker.poll(stations_.now);
    ++slices;
  }
  EXPECT_LE(slices, 3U);
}

class TwoReadersWithATimer : public TwoReaders {
 protected:
  TwoReadersWithATimer() : TwoReaders(8) {}
};

TEST_F(TwoReadersWithATimer, AReadRetriedInVainHoldsUpNoOther) {
  post_read_to_nobody();
  stations_.now = stations_.a.worker.next_deadline();
  stations_.settle();
  EXPECT_EQ(stations_.pair.a.qp().counters().requests_resent, 1U);
  EXPECT_EQ(stations_.pair.a.qp().read_frames_out(), 0U);
  post_read(other_);
  EXPECT_TRUE(other_.a.poll_send());
}

// Some connections, each of which always has `posted` READs of so many frames. Another one rings
// in each turn, which lets none of them go out of turn. The connections whose READs complete, in
// that order, over `rounds` of all.
std::vector<std::uint32_t> order_of_reads(std::uint32_t connections, std::uint32_t frames,
                                          std::uint8_t posted, std::size_t rounds) {
  Stations stations({.path_mtu = kReadMtu});
  std::deque<QpPair> pairs;
  for (std::uint32_t i = 0; i < connections; ++i) {
    const std::uint32_t qpn = 33 + 2 * i;
    QpPair& pair = pairs.emplace_back(PairConfig{
        .a = {.qpn = qpn, .keys = &stations.pair.a.keys()},
        .b = {.qpn = qpn + 1, .keys = &stations.pair.b.keys()},
        .path_mtu = kReadMtu,
        .max_rd_atomic = posted,
    });
    stations.a.add(pair.a.qp());
    stations.b.add(pair.b.qp());
  }
  const auto post_read = [&](std::uint32_t index) {
    const abi::Sge sge = pairs[index].a.sge(0, std::size_t{frames} * kReadMtu);
    pairs[index].a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, pairs[index].b, 0), {&sge, 1});
    stations.a.ring(1 + index);
  };
  for (std::uint32_t index = 0; index < connections; ++index) {
    for (std::uint32_t i = 0; i < posted; ++i) {
      post_read(index);
    }
  }
  std::vector<std::uint32_t> order;
  for (int turn = 0; turn < 100'000 && order.size() < rounds * pairs.size(); ++turn) {
    stations.a.ring();
    stations.a.worker.poll(stations.now);
    stations.b.worker.poll(stations.now);
    for (std::uint32_t index = 0; index < connections; ++index) {
      if (pairs[index].a.poll_send()) {
        order.push_back(index);
        post_read(index);
      }
    }
  }
  return order;
}

TEST(Reads, ThatGoAloneTakeTurns) {
  constexpr std::size_t kRounds = 20;
  const std::vector<std::uint32_t> order = order_of_reads(3, 1'600, 2, kRounds);
  ASSERT_EQ(order.size(), 3 * kRounds);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], i % 3) << i;
  }
}

// There is room for less than they have posted. One that has requested a READ waits behind the
// others before it requests the next.
TEST(Reads, ThatFindNoRoomTakeTurns) {
  constexpr std::uint32_t kConnections = 5;
  constexpr std::size_t kRounds = 20;
  const std::vector<std::uint32_t> order = order_of_reads(kConnections, 80, 6, kRounds);
  ASSERT_GE(order.size(), kConnections * kRounds);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], i % kConnections) << i;
  }
}

TEST(ReadCredits, ALongReadGoesAlone) {
  ReadCredits room;
  EXPECT_TRUE(room.holds(100'000));
  room.take(1);
  EXPECT_FALSE(room.holds(ReadCredits::kFramesMax));
  EXPECT_TRUE(room.holds(ReadCredits::kFramesMax - 1));
  room.take(100'000);
  EXPECT_FALSE(room.holds(1));
}

}  // namespace
}  // namespace uroce::test
