// The paging threads with programs at the other end, when more than one thing is wanted at a time.

#include "control/paging/paging_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/monotonic_clock.h"
#include "mmu/quiescence.h"
#include "tests/unit/control/paging_program.h"

namespace uroce::control {
namespace {

class PagingServiceTest : public ::testing::Test {
 protected:
  struct Paged {
    std::shared_ptr<Mirror> mirror;
    std::unique_ptr<PagingProgram> program;
  };

  Paged open() {
    const Peer peer{::getpid(), ::getuid(), 0};
    auto mirror = service.make_mirror(peer, 1);
    auto channels = service.open(mirror, peer);
    return {mirror, std::make_unique<PagingProgram>(std::move(channels->share),
                                                    std::move(channels->invalidate), 1)};
  }
  void raise(const Paged& whose) {
    const FaultRequest request{.address = kBase, .length = 8, .write = true};
    PageFault* const fault = queue.take(request);
    fault->request = request;
    fault->mirror = whose.mirror;
    fault->times.raised = monotonic_now();
    queue.raise(fault);
  }
  Access outcome() {
    PageFault* fault = nullptr;
    while ((fault = queue.next_resumed(0)) == nullptr) {
      std::this_thread::yield();
    }
    const Access outcome = fault->outcome;
    queue.give_back(fault);
    return outcome;
  }

  Quiescence quiescence;
  PagingQueues queues{1, {}};
  FaultQueue& queue = queues.faults;
  PagingService service{queues, quiescence};
};

// The fault thread takes faults before it does what it was told.
TEST_F(PagingServiceTest, AProgramCanBeAskedAsSoonAsItsChannelsAreOpen) {
  const Paged there = open();
  raise(there);
  service.start();
  EXPECT_EQ(outcome(), Access::kGranted);
  service.close(there.mirror);
}

TEST_F(PagingServiceTest, AnswersAreHeardWhileThereIsOtherWork) {
  constexpr int kJobs = 50;
  service.start();
  const Paged busy = open();
  std::atomic<int> done{0};
  std::atomic<bool> begun{false};
  const auto prefetch = [&](std::uint64_t length, std::function<void(Access)> then) {
    service.prefetch({.mirror = busy.mirror,
                      .address = kBase / 2,
                      .length = length,
                      .faulting = false,
                      .done = std::move(then)});
  };
  for (int job = 0; job < kJobs; ++job) {
    prefetch(4ULL << 30U, [&](Access) { ++done; });
  }
  // Jobs have their turns one after the other.
  prefetch(1, [&](Access) { begun = true; });
  while (!begun) {
    std::this_thread::yield();
  }
  const Paged other = open();
  raise(other);
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_LT(done, kJobs);
  service.close(other.mirror);
  while (done < kJobs) {
    std::this_thread::yield();
  }
  service.close(busy.mirror);
}

}  // namespace
}  // namespace uroce::control
