// Making or destroying an object when memory runs out, at each allocation of the command: the state
// afterwards is as before, and the command can be repeated. This program's operator new is the one
// below.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "abi/cq_records.h"
#include "abi/memory_records.h"
#include "base/sanitized.h"
#include "control/commands/command_table.h"
#include "tests/unit/control/program.h"

namespace {

// How many more allocations of this thread succeed before one fails; negative: none fails.
thread_local int until_failure = -1;

void* allocate_or_fail(std::size_t bytes, std::size_t alignment) {
  const bool fails = until_failure == 0;
  until_failure -= until_failure >= 0 ? 1 : 0;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = fails ? nullptr : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

// Out of line: if the compiler inlines only one of new and delete, it warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return allocate_or_fail(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_fail(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/,
                                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace uroce::control {
namespace {

class NoMemoryTest : public ::testing::Test {
 protected:
  static constexpr int kAllocationsMax = 1'000;  // of one command, which makes a few dozen

  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers have allocators of their own";
    }
    program.open();
    pd = program.make_pd();
    cq = program.make_cq();
  }

  // How much of each limited resource is in use.
  struct Taken {
    std::size_t qpns, cqns, srqns, qps, cqs, srqs, windows;
    std::size_t xrc_targets, workers_with_next_srq;
    std::uint32_t pd_users, cq_users, xrcd_users;
    std::uint64_t charged_qps, charged_cqs, charged_srqs, charged_mws, charged_bytes;
    auto operator<=>(const Taken&) const = default;
  };
  [[nodiscard]] Taken taken() const {
    const Session& session = program.session;
    const Account& account = *session.account();
    const Xrcd* const xrcd = session.xrcds.find(0);
    return {.qpns = rig.card.qpns().count(),
            .cqns = rig.card.cqns().count(),
            .srqns = rig.card.srqns().count(),
            .qps = session.qps.count(),
            .cqs = session.cqs.count(),
            .srqs = session.srqs.count(),
            .windows = session.windows.count(),
            .xrc_targets = xrcd != nullptr ? xrcd->domain->targets.size() : 0,
            .workers_with_next_srq = xrcd != nullptr ? knowing_workers(*xrcd->domain) : 0,
            .pd_users = session.pds.find(pd)->users,
            .cq_users = session.cqs.find(cq)->users,
            .xrcd_users = xrcd != nullptr ? xrcd->users : 0,
            .charged_qps = account.used(Limit::kQps),
            .charged_cqs = account.used(Limit::kCqs),
            .charged_srqs = account.used(Limit::kSrqs),
            .charged_mws = account.used(Limit::kMws),
            .charged_bytes = account.used(Limit::kQueueMemory)};
  }

  // The number of workers whose view of the domain has the shared receive queue `next_srq`.
  [[nodiscard]] std::size_t knowing_workers(const SharedXrcDomain& domain) const {
    return static_cast<std::size_t>(
        std::count_if(domain.seen.begin(), domain.seen.end(),
                      [this](const XrcDomain& seen) { return seen.find(next_srq) != nullptr; }));
  }

  enum class Attempt : std::uint8_t { kMade, kAsBefore, kLeft, kEndedInATask };

  // Runs the command in a child process, whose allocation number `failing` fails.
  template <typename Body>
  Attempt attempt(abi::Command command, const Body& body, int failing) {
    const pid_t child = ::fork();
    if (child == 0) {
      // Running out of memory in a worker's task ends the daemon (Runner::run_in_sleep).
      std::set_terminate([] { ::_exit(static_cast<int>(Attempt::kEndedInATask)); });
      ::_exit(static_cast<int>(run(command, body, failing)));
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return static_cast<Attempt>(WEXITSTATUS(status));
  }

  template <typename Body>
  bool ask(abi::Command command, const Body& body, int failing) {
    Record record = make_record(command, body);
    Request request{std::move(record.bytes), std::move(record.descriptors)};
    Reply reply;
    reply.descriptors.reserve(1);
    const auto handler = std::get<SessionHandler>(command_rule(command)->handler);
    until_failure = failing;
    const bool well = handler(program.session, request, &reply).has_value();
    until_failure = -1;
    return well;
  }

  template <typename Body>
  Attempt run(abi::Command command, const Body& body, int failing) {
    const Taken before = taken();
    try {
      return ask(command, body, failing) ? Attempt::kMade : Attempt::kLeft;
    } catch (const std::bad_alloc&) {
      const bool as_before = taken() == before;
      return as_before && ask(command, body, -1) ? Attempt::kAsBefore : Attempt::kLeft;
    }
  }

  // Repeats the command, each time failing one allocation later, until all its allocations succeed.
  template <typename Body>
  void expect_nothing_left(abi::Command command, const Body& body) {
    int refusals = 0;
    for (int failing = 0; failing < kAllocationsMax; ++failing) {
      const Attempt became = attempt(command, body, failing);
      ASSERT_NE(became, Attempt::kLeft) << "allocation " << failing << " failed";
      if (became == Attempt::kMade) {
        break;
      }
      refusals += became == Attempt::kAsBefore ? 1 : 0;
      ASSERT_LT(failing, kAllocationsMax - 1);
    }
    EXPECT_GT(refusals, 0);
  }

  std::uint32_t open_xrcd() {
    abi::OpenXrcdRequest open{};
    open.flags = abi::kXrcdCreate;
    return program.ask(abi::Command::kOpenXrcd, open).as<abi::HandleReply>().handle;
  }
  abi::CreateQpRequest xrc_target(std::uint32_t xrcd) {
    abi::CreateQpRequest target{};
    target.type = static_cast<std::uint32_t>(QpType::kXrcRecv);
    target.xrcd = xrcd;
    return target;
  }
  abi::CreateSrqRequest srq() {
    abi::CreateSrqRequest request{};
    request.pd = pd;
    request.max_wr = 16;
    return request;
  }
  abi::CreateSrqRequest xrc_srq(std::uint32_t xrcd) {
    abi::CreateSrqRequest request = srq();
    request.type = 1;
    request.xrcd = xrcd;
    request.cq = cq;
    return request;
  }

  mutable Rig rig;
  Program program{rig};
  std::uint32_t pd = 0, cq = 0;
  std::uint32_t next_srq = 0;  // the number that the next shared receive queue gets
};

TEST_F(NoMemoryTest, AQueuePairLeavesNothing) {
  // A session keeps its first memory for rings.
  EXPECT_EQ(program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq)).header.error, 0);
  expect_nothing_left(abi::Command::kCreateQp, program.rc_qp(pd, cq));
}

TEST_F(NoMemoryTest, ACompletionQueueLeavesNothing) {
  abi::CreateCqRequest request{};
  request.entries = 16;
  expect_nothing_left(abi::Command::kCreateCq, request);
}

TEST_F(NoMemoryTest, ASharedReceiveQueueLeavesNothing) {
  expect_nothing_left(abi::Command::kCreateSrq, srq());
}

TEST_F(NoMemoryTest, AnXrcSharedReceiveQueueLeavesNothingInAWorker) {
  const abi::CreateSrqRequest request = xrc_srq(open_xrcd());
  next_srq = rig.card.srqns().take({}).number() + 1;
  expect_nothing_left(abi::Command::kCreateSrq, request);
}

TEST_F(NoMemoryTest, AMemoryWindowLeavesNothing) {
  abi::AllocMwRequest request{};
  request.pd = pd;
  request.type = static_cast<std::uint32_t>(WindowType::kType1);
  expect_nothing_left(abi::Command::kAllocMw, request);
}

// Otherwise what couldn't be destroyed would have to be kept, so that workers have no objects that
// nobody can find.
TEST_F(NoMemoryTest, WhatIsDestroyedNeedsNoMemory) {
  const Answer qp = program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq));
  EXPECT_EQ(attempt(abi::Command::kDestroyQp,
                    abi::HandleRequest{{}, qp.as<abi::CreateQpReply>().handle, 0}, 0),
            Attempt::kMade);
  const Answer made = program.ask(abi::Command::kCreateSrq, xrc_srq(open_xrcd()));
  ASSERT_EQ(made.header.error, 0) << made.message();
  EXPECT_EQ(attempt(abi::Command::kDestroySrq,
                    abi::HandleRequest{{}, made.as<abi::CreateSrqReply>().handle, 0}, 0),
            Attempt::kMade);
}

TEST_F(NoMemoryTest, AnXrcReceivingQueuePairLeavesNothing) {
  expect_nothing_left(abi::Command::kCreateQp, xrc_target(open_xrcd()));
}

TEST(DoorbellSlotsTest, AReturnedSlotIsReusedLate) {
  DoorbellSlots slots;
  for (std::uint32_t slot = 0; slot <= LateNumbers::kQuarantine; ++slot) {
    EXPECT_EQ(slots.take().number(), slot);
  }
  EXPECT_EQ(slots.take().number(), 0U);
}

TEST(DoorbellSlotsTest, ReturningSlotsAllocatesNothing) {
  DoorbellSlots slots;
  std::vector<PooledNumber<DoorbellSlots>> taken(1'000);
  for (PooledNumber<DoorbellSlots>& slot : taken) {
    slot = slots.take();
  }
  until_failure = 0;
  taken.clear();
  EXPECT_EQ(std::exchange(until_failure, -1), 0) << "nothing was allocated";
}

}  // namespace
}  // namespace uroce::control
