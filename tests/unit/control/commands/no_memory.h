#pragma once

// What tests of making and destroying objects when memory runs out have in common.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "abi/cq_records.h"
#include "abi/memory_records.h"
#include "base/sanitized.h"
#include "control/commands/command_table.h"
#include "tests/unit/control/program.h"
#include "tests/unit/failing_allocations.h"
#include "tests/unit/in_a_child.h"

namespace uroce::control {

using test::until_failure;

constexpr int kMany = 1'000'000;  // allocations, more than a test makes

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
    std::size_t qpns, cqns, srqns, qps, cqs, srqs, windows, regions, address_handles;
    std::size_t xrc_targets, workers_with_next_srq;
    std::uint32_t pd_users, cq_users, xrcd_users;
    std::uint64_t charged_qps, charged_cqs, charged_srqs, charged_mws, charged_bytes;
    std::uint64_t charged_mrs, charged_ahs, charged_mappings;
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
            .regions = session.regions.count(),
            .address_handles = session.address_handles.count(),
            .xrc_targets = xrcd != nullptr ? xrcd->domain->targets.size() : 0,
            .workers_with_next_srq = xrcd != nullptr ? knowing_workers(*xrcd->domain) : 0,
            .pd_users = session.pds.find(pd)->users,
            .cq_users = session.cqs.find(cq)->users,
            .xrcd_users = xrcd != nullptr ? xrcd->users : 0,
            .charged_qps = account.used(Limit::kQps),
            .charged_cqs = account.used(Limit::kCqs),
            .charged_srqs = account.used(Limit::kSrqs),
            .charged_mws = account.used(Limit::kMws),
            .charged_bytes = account.used(Limit::kQueueMemory),
            .charged_mrs = account.used(Limit::kMrs),
            .charged_ahs = account.used(Limit::kAhs),
            .charged_mappings = account.used(Limit::kMappings)};
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
    return static_cast<Attempt>(test::in_a_child(static_cast<int>(Attempt::kEndedInATask),
                                                 [&] { return run(command, body, failing); }));
  }

  template <typename Body>
  bool ask(abi::Command command, const Body& body, int failing) {
    Record record = make_record(command, body);
    Request request{std::move(record.bytes), std::move(record.descriptors)};
    Reply reply;
    reply.descriptors.reserve(1);
    const auto& handler = command_rule(command)->handler;
    until_failure = failing;
    const bool well =
        std::holds_alternative<SessionHandler>(handler)
            ? std::get<SessionHandler>(handler)(program.session, request, &reply).has_value()
            : std::get<ConversationHandler>(handler)(program.conversation, request, &reply)
                  .has_value();
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

  // It needs no memory at all.
  template <typename Body>
  void expect_no_allocation(abi::Command command, const Body& body) {
    EXPECT_EQ(attempt(command, body, 0), Attempt::kMade);
  }
  void expect_no_allocation(abi::Command command, std::uint32_t handle) {
    expect_no_allocation(command, abi::HandleRequest{{}, handle, 0});
  }

  // A kRegMr of one page.
  struct alignas(abi::RegMrRequest) RegionOfAPage {
    std::byte bytes[sizeof(abi::RegMrRequest) + sizeof(abi::MemoryPiece)];
  };
  [[nodiscard]] RegionOfAPage region(abi::PieceKind kind, std::uint32_t replaces = 0) const {
    RegionOfAPage body{};
    auto& request = *reinterpret_cast<abi::RegMrRequest*>(body.bytes);
    request.address = request.iova = reinterpret_cast<std::uint64_t>(page);
    request.length = sizeof(page);
    request.pd = pd;
    request.access = kAccessLocalWrite;
    request.piece_count = 1;
    request.replaces = replaces;
    request.pieces[0] = {.address = request.address,
                         .length = sizeof(page),
                         .offset = 0,
                         .map_start = 0,
                         .map_end = 0,
                         .kind = kind,
                         .source = 0};
    return body;
  }
  void share_arena() {
    UniqueFd arena(::memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(arena.get(), sizeof(page)), 0);
    ASSERT_EQ(::fcntl(arena.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ASSERT_TRUE(program.session.memory().add_arena(std::move(arena), sizeof(page)));
  }
  [[nodiscard]] abi::CreateAhRequest address_handle() const {
    abi::CreateAhRequest request{};
    request.pd = pd;
    request.address.is_global = 1;
    request.address.port = 1;
    request.address.sgid_index = 1;
    std::copy_n(parse_ip("10.0.0.1")->bytes.begin(), 16, request.address.dgid);
    return request;
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
  alignas(4096) std::byte page[4096] = {};
};

}  // namespace uroce::control
