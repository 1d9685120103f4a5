// The order in which a worker lets queue pairs send, and when it looks at their deadlines.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "dataplane/engine/turn/qp_table.h"
#include "dataplane/engine/turn/run_queue.h"
#include "dataplane/engine/turn/timers.h"

namespace uroce {
namespace {

std::unique_ptr<Qp> make_qp(std::uint32_t qpn, std::uint32_t user = 0) {
  QpConfig config;
  config.user = user;
  config.qpn = qpn;
  return std::make_unique<Qp>(config);
}

TEST(QpTable, FindsByNumberAndGrowsForNumbersThatShareLowBits) {
  QpTable table;
  std::vector<std::unique_ptr<Qp>> qps;
  for (const std::uint32_t qpn : {1U, 2U, 1'025U, 2'049U, 0x10'0001U}) {
    qps.push_back(make_qp(qpn));
    table.add(*qps.back());
  }
  for (const auto& qp : qps) {
    ASSERT_NE(table.find(qp->config().qpn), nullptr);
    EXPECT_EQ(table.find(qp->config().qpn)->qp, qp.get());
  }
  EXPECT_EQ(table.find(3), nullptr);
  table.remove(1'025);
  EXPECT_EQ(table.find(1'025), nullptr);
  EXPECT_NE(table.find(1), nullptr);
}

// Sends frames of one size without end.
struct Sender {
  explicit Sender(std::uint32_t qpn, std::uint32_t frame_bytes, std::uint32_t user = 0)
      : qp(make_qp(qpn, user)), entry(*qp), frame(frame_bytes) {}
  std::unique_ptr<Qp> qp;
  QpEntry entry;
  std::uint32_t frame;
  std::uint64_t bytes = 0;
};

// The front entry sends what it may; the result says how much, and what it was granted.
struct Visit {
  std::uint64_t sent = 0;
  std::uint32_t granted = 0;
};
Visit visit(RunQueue& queue, std::uint32_t frame) {
  QpEntry& entry = *queue.front();
  Visit visit{.granted = queue.grant(entry)};
  while (visit.sent < visit.granted) {
    visit.sent += frame;
  }
  queue.settle(entry, static_cast<std::uint32_t>(visit.sent), true, false);
  return visit;
}

TEST(RunQueue, SharesBytesWhateverTheFrameSize) {
  Sender bulk(1, 4'150);
  Sender middle(2, 1'078);
  Sender small(3, 82);
  RunQueue queue;
  for (Sender* sender : {&bulk, &middle, &small}) {
    queue.push_back(sender->entry);
  }
  for (int i = 0; i < 3'000; ++i) {
    const QpEntry& entry = *queue.front();
    Sender& sender = entry.qpn == 1 ? bulk : entry.qpn == 2 ? middle : small;
    sender.bytes += visit(queue, sender.frame).sent;
  }
  const double fair = static_cast<double>(bulk.bytes + middle.bytes + small.bytes) / 3;
  for (const Sender* sender : {&bulk, &middle, &small}) {
    EXPECT_NEAR(static_cast<double>(sender->bytes), fair, fair * 0.01);
  }
}

// One user's 63 queue pairs, and another user's only one: half for each user, shared equally
// within.
TEST(RunQueue, SharesBytesByUserFirst) {
  constexpr std::uint32_t kMany = 63;
  std::vector<std::unique_ptr<Sender>> senders;
  RunQueue queue;
  for (std::uint32_t i = 0; i <= kMany; ++i) {
    const std::uint32_t frame = i % 2 == 0 ? 4'150 : 1'078;
    senders.push_back(std::make_unique<Sender>(i, frame, i == kMany ? 1'001 : 1'000));
    queue.push_back(senders.back()->entry);
  }
  std::uint64_t longest_wait = 0;
  std::uint64_t waited = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint32_t qpn = queue.front()->qpn;
    const std::uint64_t sent = visit(queue, senders[qpn]->frame).sent;
    senders[qpn]->bytes += sent;
    waited = qpn == kMany ? 0 : waited + sent;
    longest_wait = std::max(longest_wait, waited);
  }
  std::uint64_t many = 0;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    many += senders[i]->bytes;
    EXPECT_NEAR(static_cast<double>(senders[i]->bytes), static_cast<double>(senders[0]->bytes),
                static_cast<double>(senders[0]->bytes) / 20);
  }
  const auto one = static_cast<double>(senders[kMany]->bytes);
  std::printf("the user with one queue pair got %.3f of the bytes, and waited for %llu at most\n",
              one / (one + static_cast<double>(many)),
              static_cast<unsigned long long>(longest_wait));
  EXPECT_NEAR(one, static_cast<double>(many), one * 0.01);
  EXPECT_LE(longest_wait, 2 * RunQueue::kQuantum + 4'150);
}

// With very many queue pairs visits are longer, and as fair.
TEST(RunQueue, ManyQueuePairsOfOneUserHaveLongVisits) {
  constexpr std::uint32_t kMany = 2 * RunQueue::kFewWaiting;
  constexpr int kRounds = 200;
  std::vector<std::unique_ptr<Sender>> senders;
  RunQueue queue;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    senders.push_back(std::make_unique<Sender>(i, i % 2 == 0 ? 4'150 : 1'078));
    queue.push_back(senders.back()->entry);
  }
  std::uint64_t visits = 0;
  for (std::uint64_t sent_by_all = 0; sent_by_all < kRounds * kMany * RunQueue::kQuantumOfMany;) {
    Sender& sender = *senders[queue.front()->qpn];
    const std::uint64_t sent = visit(queue, sender.frame).sent;
    visits += sent != 0 ? 1 : 0;
    sender.bytes += sent;
    sent_by_all += sent;
  }
  EXPECT_NEAR(static_cast<double>(visits), kRounds * kMany, kRounds * kMany * 0.1);
  for (const auto& sender : senders) {
    EXPECT_NEAR(static_cast<double>(sender->bytes),
                static_cast<double>(kRounds * RunQueue::kQuantumOfMany),
                static_cast<double>(2 * RunQueue::kQuantumOfMany));
  }
}

// `count` queue pairs of user 1,000 with something to send.
std::vector<std::unique_ptr<Sender>> queue_up(RunQueue& queue, std::uint32_t count) {
  std::vector<std::unique_ptr<Sender>> senders;
  for (std::uint32_t i = 0; i < count; ++i) {
    senders.push_back(std::make_unique<Sender>(i, 4'150, 1'000));
    queue.push_back(senders.back()->entry);
  }
  return senders;
}

TEST(RunQueue, VisitsAreLongOnceThereAreMoreThanFewQueuePairs) {
  RunQueue queue;
  const auto senders = queue_up(queue, RunQueue::kFewWaiting);
  EXPECT_EQ(queue.grant(*queue.front()), RunQueue::kQuantum);
  RunQueue longer;
  const auto more = queue_up(longer, RunQueue::kFewWaiting + 1);
  EXPECT_EQ(longer.grant(*longer.front()), RunQueue::kQuantumOfMany);
}

// Another user that arrives waits no longer than with few queue pairs, and from then on both have
// short visits; the first one isn't charged for what it sent while it was alone.
TEST(RunQueue, ManyQueuePairsHaveNoLongVisitsBesideAnotherUser) {
  constexpr std::uint32_t kFrame = 4'150;
  RunQueue queue;
  const auto senders = queue_up(queue, 2 * RunQueue::kFewWaiting);
  ASSERT_EQ(visit(queue, kFrame).granted, RunQueue::kQuantumOfMany);
  ASSERT_GT(queue.grant(*queue.front()), RunQueue::kQuantum);
  queue.settle(*queue.front(), 82, false, false);  // nearly all of the turn is left
  Sender other(2 * RunQueue::kFewWaiting, kFrame, 1'001);
  queue.push_back(other.entry);
  std::uint64_t waited = 0;
  while (queue.front() != &other.entry) {
    const Visit one = visit(queue, kFrame);
    EXPECT_LE(one.granted, RunQueue::kQuantum);
    waited += one.sent;
  }
  EXPECT_LE(waited, 2 * RunQueue::kQuantum + kFrame);
  std::uint64_t of_other = 0, of_many = 0;
  for (int i = 0; i < 40; ++i) {
    const bool others = queue.front() == &other.entry;
    const Visit one = visit(queue, kFrame);
    EXPECT_LE(one.granted, RunQueue::kQuantum);
    (others ? of_other : of_many) += one.sent;
  }
  EXPECT_NEAR(static_cast<double>(of_many), static_cast<double>(of_other),
              static_cast<double>(3 * RunQueue::kQuantum));
}

// A long visit that was interrupted resumes as an ordinary one beside another user.
TEST(RunQueue, AnInterruptedLongVisitResumesAsAnOrdinaryOne) {
  RunQueue queue;
  const auto senders = queue_up(queue, 2 * RunQueue::kFewWaiting);
  QpEntry& first = *queue.front();
  const std::uint32_t granted = queue.grant(first);
  queue.settle(first, 4'150, true, true);
  EXPECT_EQ(queue.front(), &first);
  EXPECT_EQ(queue.grant(first), granted - 4'150);
  Sender other(2 * RunQueue::kFewWaiting, 4'150, 1'001);
  queue.push_back(other.entry);
  EXPECT_EQ(queue.front(), &first);
  EXPECT_EQ(queue.grant(first), RunQueue::kQuantum);
}

// Another user arrives in the middle of a long visit, as a peer that has an answer to send does.
TEST(RunQueue, ALongVisitLeavesNoDebt) {
  RunQueue queue;
  const auto senders = queue_up(queue, 2 * RunQueue::kFewWaiting);
  QpEntry& first = *queue.front();
  const std::uint32_t granted = queue.grant(first);
  ASSERT_EQ(granted, RunQueue::kQuantumOfMany);
  Sender other(2 * RunQueue::kFewWaiting, 4'150, 1'001);
  queue.push_back(other.entry);
  queue.settle(first, granted, true, false);
  ASSERT_EQ(queue.front(), &other.entry);
  (void)visit(queue, 4'150);
  EXPECT_GT(visit(queue, 4'150).granted, 0U) << "it is the first user's turn again";
}

// One user's 63 queue pairs have one small message each; another user sends without end.
TEST(RunQueue, SmallMessagesOfAUserGoInOneTurn) {
  constexpr std::uint32_t kMany = 63;
  Sender bulk(kMany, 4'150, 1'001);
  std::vector<std::unique_ptr<Sender>> senders;
  RunQueue queue;
  queue.push_back(bulk.entry);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    senders.push_back(std::make_unique<Sender>(i, 82, 1'000));
    queue.push_back(senders.back()->entry);
  }
  while (queue.size() > 1) {
    QpEntry& entry = *queue.front();
    const std::uint32_t granted = queue.grant(entry);
    std::uint32_t sent = 0;
    while (entry.qpn == kMany && sent < granted) {
      sent += bulk.frame;
    }
    bulk.bytes += sent;
    queue.settle(entry, entry.qpn == kMany ? sent : 82, entry.qpn == kMany, false);
  }
  EXPECT_LE(bulk.bytes, RunQueue::kQuantum + 4'150U);
}

// A user's debt isn't the queue pair's: once it is paid off, the interrupted queue pair goes on
// first.
TEST(RunQueue, AnInterruptedQueuePairKeepsItsPlaceWhileItsUserIsInDebt) {
  Sender first(1, 100, 7);
  Sender second(2, 100, 7);
  RunQueue queue;
  queue.push_back(first.entry);
  queue.push_back(second.entry);
  queue.grant(first.entry);
  first.entry.group->deficit = 0;  // as if others of its user had used it up
  queue.settle(first.entry, 100, true, true);
  EXPECT_EQ(queue.front(), &first.entry);
  first.entry.group->deficit = -2 * RunQueue::kQuantum;
  EXPECT_EQ(queue.grant(first.entry), 0U);
  queue.settle(first.entry, 0, true, false);
  EXPECT_EQ(queue.front(), &first.entry);
}

TEST(RunQueue, AUserLeavesWithItsLastQueuePair) {
  Sender first(1, 100, 7);
  Sender second(2, 100, 7);
  RunQueue queue;
  queue.push_back(first.entry);
  queue.push_back(second.entry);
  queue.leave(first.entry);
  EXPECT_EQ(queue.front(), &second.entry);
  queue.leave(second.entry);
  EXPECT_TRUE(queue.empty());
  queue.push_back(first.entry);
  EXPECT_EQ(queue.grant(first.entry), RunQueue::kQuantum);
}

TEST(RunQueue, AnInterruptedQueuePairResumesWithTheRestOfItsGrant) {
  Sender first(1, 100);
  Sender second(2, 100);
  RunQueue queue;
  queue.push_back(first.entry);
  queue.push_back(second.entry);
  const std::uint32_t granted = queue.grant(first.entry);
  queue.settle(first.entry, 100, true, true);
  EXPECT_EQ(queue.front(), &first.entry);
  EXPECT_EQ(queue.grant(first.entry), granted - 100);
  queue.settle(first.entry, granted - 100, true, true);
  EXPECT_EQ(queue.front(), &second.entry);
}

// A queue pair that waits for memory is visited in vain any number of times.
TEST(RunQueue, UnusedVisitsSaveUpNoCredit) {
  Sender idle(1, 100);
  RunQueue queue;
  queue.push_back(idle.entry);
  for (int visit = 0; visit < 1'000'000; ++visit) {
    ASSERT_EQ(queue.grant(idle.entry), RunQueue::kQuantum);
    queue.settle(idle.entry, 0, true, false);
  }
}

TEST(RunQueue, AnIdleQueuePairKeepsNoCredit) {
  Sender idle(1, 100);
  RunQueue queue;
  queue.push_back(idle.entry);
  queue.grant(idle.entry);
  queue.settle(idle.entry, 100, false, false);
  EXPECT_TRUE(queue.empty());
  queue.push_back(idle.entry);
  EXPECT_EQ(queue.grant(idle.entry), RunQueue::kQuantum);
}

TEST(RunQueue, RemovesFromTheMiddle) {
  Sender a(1, 1);
  Sender b(2, 1);
  Sender c(3, 1);
  RunQueue queue;
  for (Sender* sender : {&a, &b, &c}) {
    queue.push_back(sender->entry);
  }
  queue.remove(b.entry);
  EXPECT_EQ(queue.size(), 2U);
  queue.remove(a.entry);
  EXPECT_EQ(queue.front(), &c.entry);
  queue.remove(c.entry);
  EXPECT_TRUE(queue.empty());
}

TEST(Timers, ExpireInOrderAfterAnyUpdates) {
  std::mt19937 random(5);
  std::vector<std::unique_ptr<Sender>> senders;
  Timers timers;
  std::vector<Time> deadlines;
  for (std::uint32_t i = 0; i < 500; ++i) {
    senders.push_back(std::make_unique<Sender>(i, 1));
    deadlines.push_back(1 + random() % 10'000);
    timers.update(senders.back()->entry, deadlines.back());
  }
  for (std::uint32_t i = 0; i < 500; i += 3) {  // some earlier, some later
    deadlines[i] = 1 + random() % 10'000;
    timers.update(senders[i]->entry, deadlines[i]);
  }
  for (std::uint32_t i = 1; i < 500; i += 7) {
    timers.remove(senders[i]->entry);
    deadlines[i] = kNever;
  }
  Time last = 0;
  std::size_t expired = 0;
  for (Time now = 0; timers.next() != kNever; now = timers.next()) {
    while (QpEntry* entry = timers.expire(now)) {
      // Either due, or moved to a later deadline: then it is put back.
      if (deadlines[entry->qpn] > now) {
        timers.update(*entry, deadlines[entry->qpn]);
        continue;
      }
      EXPECT_GE(deadlines[entry->qpn], last);
      last = deadlines[entry->qpn];
      ++expired;
    }
  }
  EXPECT_EQ(expired, 500U - 72U);
}

}  // namespace
}  // namespace uroce
