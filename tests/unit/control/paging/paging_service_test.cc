// The paging threads with programs at the other end, and several requests at a time.

#include "control/paging/paging_service.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/time/monotonic_clock.h"
#include "mmu/proc_mem/proc_mem.h"
#include "mmu/quiescence.h"
#include "tests/unit/control/paging/paging_program.h"

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
    auto mirror = *service.make_mirror(std::move(open_proc_mem(process_of(peer)).value()), 1,
                                       make_private_account());
    auto channels = service.open(mirror, peer);
    return {mirror, std::make_unique<PagingProgram>(std::move(channels->share),
                                                    std::move(channels->invalidate), 1)};
  }
  void raise(const Paged& whose) {
    const FaultRequest request{.address = kBase, .length = 8, .write = true};
    PageFault* const fault = queue.take(request, whose.mirror);
    fault->times.raised = monotonic_now();
    queue.raise(fault);
  }
  void prefetch(const Paged& whose, const std::function<void(Access)>& done) {
    service.prefetch({.mirror = whose.mirror,
                      .address = kBase / 2,
                      .length = 4ULL << 30U,
                      .faulting = false,
                      .done = done});
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

// Each used to be a failed assertion.
TEST(PagingService, ReportsThatDescriptorsRanOut) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  Quiescence quiescence;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  PagingQueues queues(1, {});
  PagingService service(queues, quiescence);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  const Status started = service.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, EMFILE);
}

TEST_F(PagingServiceTest, AMirrorBeyondItsUsersLimitIsRefused) {
  Shares shares;
  shares.set_limits({.of_everybody = {{Limit::kMappings, 0}}, .of_user = {}});
  const uid_t user = ::geteuid() + 1;
  const auto mirror = service.make_mirror(UniqueFd(), 1, shares.of({.uid = user}));
  ASSERT_FALSE(mirror);
  EXPECT_EQ(mirror.error().code, ENOMEM);
  EXPECT_NE(mirror.error().message.find("mappings under [limits."), std::string::npos)
      << mirror.error().message;
}

// The fault thread takes faults before it handles new sessions.
TEST_F(PagingServiceTest, AProgramCanBeAskedAsSoonAsItsChannelsAreOpen) {
  const Paged there = open();
  raise(there);
  ASSERT_TRUE(service.start());
  EXPECT_EQ(outcome(), Access::kGranted);
  service.close(there.mirror);
}

// There is other work until the answer has arrived, however late this thread gets to run.
TEST_F(PagingServiceTest, AnswersAreReadWhileThereIsOtherWork) {
  ASSERT_TRUE(service.start());
  const Paged busy = open();
  std::atomic<bool> begun{false}, answered{false};
  std::atomic<int> jobs{4};
  std::function<void(Access)> go_on = [&](Access) {
    begun = true;
    if (answered) {
      --jobs;
    } else {
      prefetch(busy, go_on);
    }
  };
  for (int job = jobs; job > 0; --job) {
    prefetch(busy, go_on);
  }
  while (!begun) {
    std::this_thread::yield();
  }
  const Paged other = open();
  raise(other);
  EXPECT_EQ(outcome(), Access::kGranted);
  answered = true;
  service.close(other.mirror);
  while (jobs != 0) {
    std::this_thread::yield();
  }
  service.close(busy.mirror);
}

}  // namespace
}  // namespace uroce::control
