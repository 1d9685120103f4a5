// Page faults against invalidations, deregistration and the end of sessions, with the daemon's own
// threads and sessions. Only the queue pairs are replaced: threads of the test use keys, regions
// and faults as workers do. After a deregistration has returned, no worker uses the region; after
// an invalidation, none touches the page; every fault completes.
//
// UROCE_PAGING_ROUNDS sets how many regions and sessions end (build-tsan, build-asan: a soak).

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "base/time/monotonic_clock.h"
#include "control/paging/paging_service.h"
#include "tests/unit/control/paging/paging_worker.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint64_t kPages = PagingProgram::kPages;
constexpr std::uint64_t kRoundsDefault = 400;

class Stress {
 public:
  explicit Stress(const PagingLimits& limits) : service_(queues_, rig_.quiescence(), limits) {
    rig_.services.paging = &service_;
    EXPECT_TRUE(service_.start());
    for (std::uint32_t slot = 0; slot < kPagedSessions; ++slot) {
      open(slot);
    }
    for (std::uint32_t index = 0; index < kWorkers; ++index) {
      workers_.emplace_back([this, index] {
        PagingWorker(index, rig_.card.keys(), rig_.quiescence(), queues_, published_, tally)
            .run(stopping_);
      });
    }
  }
  ~Stress() { EXPECT_TRUE(workers_.empty()) << "finish() wasn't called"; }
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;

  // Ends all sessions, and returns when every fault has completed.
  void finish() {
    for (std::uint32_t slot = 0; slot < kPagedSessions; ++slot) {
      close(slot);
    }
    stopping_ = true;  // workers end when all their faults have completed
    for (std::thread& worker : workers_) {
      worker.join();
    }
    workers_.clear();
  }

  void round() {
    const std::uint32_t slot = draw(kPagedSessions);
    const std::uint32_t region = draw(kRegions);
    switch (draw(16)) {
      case 0:
        close(slot);
        return open(slot);
      case 1:
        return stop_answering(slot);
      case 2:
      case 3:
        return prefetch(slot, region);
      case 4:
      case 5:
      case 6:
        return replace(slot, region);
      default:
        deregister(slot, region);
        return reg(slot, region);
    }
  }

  Tally tally;
  std::uint64_t deregistered_at_work = 0, replaced_at_work = 0, closed_at_work = 0;
  std::uint64_t invalidations = 0;

 private:
  // Less than `end`.
  std::uint32_t draw(std::uint64_t end) { return static_cast<std::uint32_t>(random_() % end); }

  void open(std::uint32_t slot) {
    sessions_[slot].emplace(rig_);
    sessions_[slot]->open();
    Answer channels = sessions_[slot]->ask(abi::Command::kOpenPaging);
    ASSERT_EQ(channels.record.descriptors.size(), 2U) << channels.message();
    lives_[slot] = &all_lives_.emplace_back();
    lives_[slot]->program = std::make_unique<PagingProgram>(
        std::move(channels.record.descriptors[0]), std::move(channels.record.descriptors[1]),
        static_cast<std::uint32_t>(random_()));
    for (std::uint32_t region = 0; region < kRegions; ++region) {
      reg(slot, region);
    }
  }

  // The session ends by the daemon, or because the program dies.
  void close(std::uint32_t slot) {
    Life& life = *lives_[slot];
    life.failing = true;
    if (draw(2) == 0) {
      life.program->hang_up();
    }
    int under_way = 0;
    for (const Registration* there : mine_[slot]) {
      under_way += there->faults_out.load(std::memory_order_relaxed);
    }
    closed_at_work += under_way != 0 ? 1 : 0;
    sessions_[slot].reset();
    for (Registration* there : mine_[slot]) {
      over(*there);
    }
    life.program->end();
    invalidations += life.program->invalidations();
  }

  void stop_answering(std::uint32_t slot) {
    lives_[slot]->failing = true;
    lives_[slot]->program->stop_answering();
  }

  // Region 0 is all of the memory; the others overlap.
  Registration& describe(std::uint32_t slot, std::uint32_t region, abi::RegMrRequest* wanted) {
    Registration& made = all_registrations_.emplace_back();
    made.life = lives_[slot];
    made.slot = slot;
    made.pd_handle = sessions_[slot]->make_pd();
    made.pd = sessions_[slot]->session.pds.find(made.pd_handle)->id;
    made.first = region == 0 ? 0 : draw(kPages / 2);
    made.pages = region == 0 ? kPages : kPages / 2;
    made.iova = region == 0 ? kBase : (1 + draw(1'000)) * Mirror::kChunk;
    *wanted = {.header = {},
               .address = region == 0 ? 0 : kBase + made.first * kPage,
               .length = region == 0 ? abi::kImplicitLength : made.pages * kPage,
               .iova = region == 0 ? 0 : made.iova + made.first * kPage,
               .pd = made.pd_handle,
               .access = kAccessLocalWrite | kAccessRemoteWrite | kAccessOnDemand,
               .piece_count = 0,
               .pieces_in_file = 0,
               .replaces = 0,
               .reserved = 0};
    return made;
  }

  void reg(std::uint32_t slot, std::uint32_t region) {
    abi::RegMrRequest wanted;
    Registration& made = describe(slot, region, &wanted);
    publish(slot, region, made, sessions_[slot]->ask(abi::Command::kRegMr, wanted));
  }

  void publish(std::uint32_t slot, std::uint32_t region, Registration& made, const Answer& answer) {
    ASSERT_EQ(answer.header.error, 0) << answer.message();
    made.handle = answer.as<abi::RegMrReply>().handle;
    made.key = answer.as<abi::RegMrReply>().rkey;
    mine_[slot][region] = &made;
    // Release: pairs with the workers' acquire.
    published_[slot][region].store(&made, std::memory_order_release);
  }

  void deregister(std::uint32_t slot, std::uint32_t region) {
    Registration& old = *mine_[slot][region];
    deregistered_at_work += old.faults_out.load(std::memory_order_relaxed) != 0 ? 1 : 0;
    EXPECT_EQ(sessions_[slot]->ask_about(abi::Command::kDeregMr, old.handle).header.error, 0);
    over(old);
    EXPECT_EQ(sessions_[slot]->ask_about(abi::Command::kDeallocPd, old.pd_handle).header.error, 0);
  }

  // Another region under the same key (ibv_rereg_mr).
  void replace(std::uint32_t slot, std::uint32_t region) {
    Registration& old = *mine_[slot][region];
    abi::RegMrRequest wanted;
    Registration& made = describe(slot, region, &wanted);
    wanted.replaces = old.handle + 1;
    replaced_at_work += old.faults_out.load(std::memory_order_relaxed) != 0 ? 1 : 0;
    publish(slot, region, made, sessions_[slot]->ask(abi::Command::kRegMr, wanted));
    over(old);
    EXPECT_EQ(sessions_[slot]->ask_about(abi::Command::kDeallocPd, old.pd_handle).header.error, 0);
  }

  // Called when the command that ended it has returned.
  void over(Registration& old) {
    old.gone = true;
    const Region* none = nullptr;
    EXPECT_NE(rig_.card.keys().check(old.key, old.pd, old.iova + old.first * kPage, 8, 0, &none),
              Access::kGranted);
  }

  void prefetch(std::uint32_t slot, std::uint32_t region) {
    const Registration& there = *mine_[slot][region];
    const abi::AdviseMrRequest head{.header = {},
                                    .pd = there.pd_handle,
                                    .advice = static_cast<abi::Advice>(draw(3)),
                                    .flags = 0,
                                    .sge_count = 1};
    const abi::AdviseSge range{there.iova + there.first * kPage,
                               static_cast<std::uint32_t>(there.pages * kPage), there.key};
    Record record = make_record(abi::Command::kAdviseMr, head);
    abi::RequestHeader header;
    std::memcpy(&header, record.bytes.data(), sizeof(header));
    header.length += static_cast<std::uint32_t>(sizeof(range));
    record.bytes.resize(header.length);
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    std::memcpy(record.bytes.data() + sizeof(head), &range, sizeof(range));
    EXPECT_EQ(sessions_[slot]->send(std::move(record)).header.error, 0);
  }

  Rig rig_;
  PagingQueues queues_{kWorkers, {}};  // workers never sleep
  PagingService service_;
  std::mt19937 random_{7};
  std::deque<Life> all_lives_;
  std::deque<Registration> all_registrations_;
  std::array<std::optional<Program>, kPagedSessions> sessions_;
  std::array<Life*, kPagedSessions> lives_{};
  std::array<std::array<Registration*, kRegions>, kPagedSessions> mine_{};
  Published published_{};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

std::uint64_t rounds() {
  const char* const text = std::getenv("UROCE_PAGING_ROUNDS");
  return text == nullptr ? kRoundsDefault : std::strtoull(text, nullptr, 10);
}

void run(const PagingLimits& limits) {
  const auto stress = std::make_unique<Stress>(limits);
  Tally& tally = stress->tally;
  // Until the rounds are over, and each kind of end has hit a fault under way.
  for (std::uint64_t round = 0;
       round < rounds() || stress->deregistered_at_work == 0 || stress->replaced_at_work == 0 ||
       stress->closed_at_work == 0 || tally.used == 0;
       ++round) {
    stress->round();
    std::this_thread::yield();
  }
  stress->finish();
  EXPECT_EQ(tally.used_after_end, 0U);
  EXPECT_EQ(tally.touched_taken, 0U);
  EXPECT_EQ(tally.misplaced, 0U);
  EXPECT_EQ(tally.failed, 0U);
  EXPECT_GT(tally.refused, 0U);  // stale keys
  EXPECT_GT(stress->invalidations, 0U);
  std::printf("%" PRIu64 " faults, %" PRIu64 " pages at once, %" PRIu64 " uses, %" PRIu64
              " invalidations; ended while faults were under way: %" PRIu64 " regions, %" PRIu64
              " by being replaced, %" PRIu64 " sessions\n",
              tally.faults.load(), tally.at_once.load(), tally.used.load(), stress->invalidations,
              stress->deregistered_at_work, stress->replaced_at_work, stress->closed_at_work);
}

TEST(PagingStress, NothingIsUsedAfterItsEnd) { run({}); }

// A low limit on resident memory, so that pages are evicted all the time.
TEST(PagingStress, NothingIsUsedAfterItsEndUnderALimit) { run({.session = kPages / 4 * kPage}); }

}  // namespace
}  // namespace uroce::control
