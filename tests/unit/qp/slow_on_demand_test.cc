// Bytes that a responder collects for on-demand memory that is reached through /proc/PID/mem: they
// are never stored where the program has unmapped what they were for. The test plays the fault
// thread, the invalidation thread, and helpers that never copy anything.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "dataplane/qp/failure.h"
#include "mmu/mirror/mirror.h"
#include "mmu/proc_mem/proc_mem_thread.h"
#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kSlowIova = 0x10'0000;
constexpr std::uint64_t kSlowProgram = 0x7000'0000'0000;
constexpr std::uint64_t kSlowPage = Mirror::kPage;
constexpr std::uint64_t kSlowBytes = 16 * kSlowPage;
constexpr std::uint32_t kSlowMtu = 1'024;  // the rig's
constexpr std::uint32_t kChange = 1;       // an invalidation

class FaultsAndCopies final : public FaultSink {
 public:
  bool raise(const FaultRequest& request, const Region& /*region*/, std::uint32_t /*qpn*/,
             FaultRole /*role*/, std::uint32_t ticket_of_fault) override {
    raised.push_back(request);
    ticket = ticket_of_fault;
    return true;
  }
  bool flush(const FlushRequest& /*request*/, const Region& /*region*/, std::uint32_t /*qpn*/,
             FaultRole /*role*/, std::uint32_t /*ticket*/) override {
    return false;
  }
  bool copy(std::unique_ptr<ProcMemCopy>* copy) override {
    given.push_back(std::move(*copy));
    return true;
  }
  [[nodiscard]] Duration usual_time() const override { return 0; }
  std::vector<FaultRequest> raised;
  std::uint32_t ticket = 0;  // of the last one
  std::vector<std::unique_ptr<ProcMemCopy>> given;
};

class SlowOnDemand : public testing::Test {
 protected:
  // The first half of a message lies in page 0, the other in page 1.
  SlowOnDemand() {
    rig_.faults = &faults_;
    mirror_->set_program(program_, {});
    Region::Config config;
    config.pd = QpRig::kPd;
    config.access = kAccessLocalWrite | kAccessRemoteWrite;
    config.iova = kSlowIova;
    config.length = kSlowBytes;
    config.program_address = kSlowProgram;
    config.mirror = mirror_;
    key_ = rig_.keys.add(std::make_unique<Region>(std::move(config))).value();
    page_in(0, 2);
  }
  void first_half() {
    const Reth reth{
        .address = kSlowIova + kSlowPage - kSlowMtu, .rkey = key_, .length = 2 * kSlowMtu};
    ASSERT_EQ(write(Opcode::kRcWriteFirst, 100, reth), Step::kDone);
  }
  Step other_half() { return write(Opcode::kRcWriteLast, 101, {}); }
  Step write(Opcode opcode, std::uint32_t psn, const Reth& reth) {
    return rig_.receive({.opcode = opcode, .psn = psn, .reth = reth}, pattern(psn, kSlowMtu));
  }

  static std::uint64_t address_of(std::uint64_t page) { return kSlowProgram + page * kSlowPage; }
  void page_in(std::uint64_t first, std::uint64_t end, bool writable = true) {
    const MirrorPiece piece{
        .address = kSlowProgram, .length = kSlowBytes, .descriptor = -1, .write = writable};
    mirror_->describe(kSlowProgram, kSlowProgram + Mirror::kChunk, {&piece, 1}, mirror_->changes());
    for (std::uint64_t page = first; page < end; ++page) {
      const auto run = mirror_->find_run(address_of(page), address_of(page + 1), writable);
      if (run.state == Mirror::State::kAbsent) {
        ASSERT_EQ(mirror_->populate(run, writable), Mirror::Populated::kDone);
      }
    }
  }
  // The program changes a page. `keeps`: not its contents.
  void begin_change(std::uint64_t page, bool forget, bool keeps) {
    ASSERT_TRUE(
        mirror_->invalidate(kChange, address_of(page), address_of(page + 1), forget, keeps));
  }
  void change(std::uint64_t page, bool forget, bool keeps) {
    begin_change(page, forget, keeps);
    mirror_->unblock(kChange);
  }
  // The fault that was raised is over.
  void settle(Access outcome = Access::kGranted) {
    ASSERT_EQ(faults_.raised.size(), 1U);
    EXPECT_EQ(faults_.raised.front().address, address_of(1) - kSlowMtu);
    rig_.qp().settle(FaultRole::kResponder, faults_.ticket, outcome, address_of(0));
    Turn turn = rig_.turn();
    rig_.qp().resume(turn);
  }

  void expect_refused_as(Failure failure) {
    EXPECT_TRUE(faults_.given.empty());
    EXPECT_EQ(rig_.qp().state(), QpState::kErr);
    ASSERT_EQ(rig_.events.reports.size(), 1U);
    EXPECT_EQ(rig_.events.reports.front().failure, failure);
  }
  // All of the message, with one copy.
  void expect_given() {
    ASSERT_EQ(faults_.given.size(), 1U);
    EXPECT_EQ(faults_.given.front()->first(), address_of(1) - kSlowMtu);
    EXPECT_EQ(faults_.given.front()->length, 2 * kSlowMtu);
  }

  FaultsAndCopies faults_;
  QpRig rig_;
  std::shared_ptr<ProcMemThread> program_ =
      ProcMemThread::start(std::make_shared<const UniqueFd>(), {.uid = ::getuid()}).value();
  std::shared_ptr<Mirror> mirror_ =
      std::make_shared<Mirror>(rig_.quiescence, UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  std::uint32_t key_ = 0;
};

TEST_F(SlowOnDemand, AMessageIsCopiedAtOnce) {
  first_half();
  EXPECT_EQ(other_half(), Step::kParked);
  expect_given();
}

// Something else may be mapped there now.
TEST_F(SlowOnDemand, NothingIsStoredWhereMemoryWasUnmapped) {
  first_half();
  change(0, true, false);
  page_in(0, 1);
  EXPECT_EQ(other_half(), Step::kDone);
  expect_refused_as(Failure::kRemoteLost);
}

TEST_F(SlowOnDemand, NothingIsStoredWhereMemoryWasDropped) {
  first_half();
  change(0, false, false);
  page_in(0, 1);
  EXPECT_EQ(other_half(), Step::kDone);
  expect_refused_as(Failure::kRemoteLost);
}

TEST_F(SlowOnDemand, NothingIsStoredWhileMemoryIsBeingUnmapped) {
  first_half();
  begin_change(0, true, false);
  EXPECT_EQ(other_half(), Step::kParked);
  EXPECT_TRUE(faults_.given.empty());
  mirror_->unblock(kChange);
  page_in(0, 1);
  settle();
  EXPECT_EQ(other_half(), Step::kDone);
  expect_refused_as(Failure::kRemoteLost);
}

TEST_F(SlowOnDemand, NothingIsStoredWhereNothingIsMapped) {
  first_half();
  change(0, true, false);
  EXPECT_EQ(other_half(), Step::kParked);
  settle(Access::kUnmapped);
  EXPECT_EQ(other_half(), Step::kDone);
  expect_refused_as(Failure::kRemoteUnmapped);
}

// As a fork does.
TEST_F(SlowOnDemand, MemoryThatKeepsItsContentsIsPagedInAgain) {
  first_half();
  change(0, true, true);
  EXPECT_EQ(other_half(), Step::kParked);
  EXPECT_TRUE(faults_.given.empty());
  page_in(0, 1);
  settle();
  EXPECT_EQ(other_half(), Step::kParked);
  expect_given();
}

TEST_F(SlowOnDemand, NothingIsStoredInMemoryThatIsReadOnlyNow) {
  first_half();
  change(0, true, true);
  page_in(0, 1, false);
  EXPECT_EQ(other_half(), Step::kParked);
  settle(Access::kNoRight);
  EXPECT_EQ(other_half(), Step::kDone);
  expect_refused_as(Failure::kRemoteRight);
}

TEST_F(SlowOnDemand, ChangesOfOtherMemoryDontMatter) {
  first_half();
  change(5, true, false);
  EXPECT_EQ(other_half(), Step::kParked);
  ASSERT_EQ(faults_.given.size(), 1U);
  EXPECT_EQ(faults_.given.front()->length, 2 * kSlowMtu);
}

// The mirror doesn't know any more which addresses have changed.
TEST_F(SlowOnDemand, NothingIsStoredAfterTooManyChanges) {
  first_half();
  for (std::size_t i = 0; i < ChangeList::kKept; ++i) {
    change(5, true, false);
  }
  EXPECT_EQ(other_half(), Step::kDone);
  expect_refused_as(Failure::kRemoteLost);
}

}  // namespace
}  // namespace uroce::test
