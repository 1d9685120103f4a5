// Memory accesses that take time, as the roles of a queue pair see them: memory that isn't
// resident, or is to be flushed to a disk, raises one fault, whichever key it is accessed by, and
// the next access finds the outcome.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "dataplane/qp/memory/memory.h"
#include "mmu/faults/flush_queue.h"
#include "mmu/mirror/mirror.h"
#include "mmu/quiescence.h"

namespace uroce::test {
namespace {

constexpr PdId kPagedPd = 7;
constexpr std::uint32_t kQpn = 17;
constexpr std::uint64_t kPagedIova = 0x10'0000;
constexpr std::uint64_t kProgram = 0x7000'0000'0000;
constexpr std::uint64_t kPagedBytes = 1U << 20U;

class Faults final : public FaultSink {
 public:
  bool raise(const FaultRequest& request, const Region& region, std::uint32_t qpn,
             FaultRole /*role*/, std::uint32_t /*ticket*/) override {
    EXPECT_EQ(qpn, kQpn);
    EXPECT_EQ(request.key, region.key());
    raised.push_back(request);
    return !starved;
  }
  bool flush(const FlushRequest& request, const Region& /*region*/, std::uint32_t qpn,
             FaultRole /*role*/, std::uint32_t /*ticket*/) override {
    EXPECT_EQ(qpn, kQpn);
    flushes.push_back(request);
    return !starved;
  }
  [[nodiscard]] Duration usual_time() const override { return 0; }
  std::vector<FaultRequest> raised;
  bool copy(std::unique_ptr<ProcMemCopy>* /*copy*/) override { return false; }
  std::vector<FlushRequest> flushes;
  bool starved = false;
};

class OnDemandMemory : public testing::Test {
 protected:
  OnDemandMemory() {
    Region::Config config = like_both();
    config.mirror = std::make_shared<Mirror>(quiescence_, UniqueFd());
    key_ = *keys_.add(std::make_unique<Region>(std::move(config)));
  }
  // What the on-demand region and the pinned one have in common.
  static Region::Config like_both() {
    Region::Config config;
    config.pd = kPagedPd;
    config.access = kAccessLocalWrite | kAccessMwBind | kAccessRemoteRead | kAccessRemoteWrite |
                    kAccessRemoteAtomic | kAccessFlushPersistent;
    config.iova = kPagedIova;
    config.length = kPagedBytes;
    config.program_address = kProgram;
    return config;
  }
  MemoryScope scope() {
    return {.keys = keys_, .pd = kPagedPd, .qpn = kQpn, .faults = &faults_, .slot = &slot_};
  }
  Access write(std::uint32_t key) {
    return write_remote(scope(),
                        {.rkey = key, .address = kPagedIova + 100, .length = 8, .ahead = 50},
                        bytes_.data());
  }
  Access flush(std::uint32_t key, bool whole_region = false) {
    return flush_remote(scope(), {.rkey = key, .address = kPagedIova + 100, .length = 500},
                        whole_region, kAccessFlushPersistent);
  }
  // A FLUSH parks once, whatever kind of memory it is for; the next access finds the outcome.
  void expect_flushes_to_park(std::uint32_t key) {
    EXPECT_EQ(flush(key), Access::kNotResident);
    EXPECT_EQ(flush(key), Access::kNotResident);
    ASSERT_EQ(faults_.flushes.size(), 1U);
    EXPECT_TRUE(faults_.raised.empty());
    EXPECT_EQ(faults_.flushes[0].address, kProgram + 100);
    EXPECT_EQ(faults_.flushes[0].length, 500U);
    settle(Access::kGranted);
    EXPECT_EQ(flush(key), Access::kGranted);
    EXPECT_EQ(flush(key, true), Access::kNotResident);
    EXPECT_EQ(faults_.flushes.back().address, kProgram);
    EXPECT_EQ(faults_.flushes.back().length, kPagedBytes);
    settle(Access::kNoRight);
    EXPECT_EQ(flush(key, true), Access::kNoRight);
  }
  void settle(Access outcome, std::uint64_t page = 0) {
    slot_.waiting = false;
    slot_.failed = outcome;
    slot_.failed_page = page;
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 64, 1};
  Faults faults_;
  FaultSlot slot_;
  std::array<std::byte, 64> bytes_{};
  std::uint32_t key_ = 0;
};

TEST_F(OnDemandMemory, RaisesOneFault) {
  EXPECT_EQ(write(key_), Access::kNotResident);
  EXPECT_EQ(write(key_), Access::kNotResident);
  ASSERT_EQ(faults_.raised.size(), 1U);
  EXPECT_EQ(faults_.raised[0].address, kProgram + 100);
  EXPECT_EQ(faults_.raised[0].length, 8U);
  EXPECT_EQ(faults_.raised[0].ahead, 50U);
  EXPECT_TRUE(faults_.raised[0].write);
}

TEST_F(OnDemandMemory, RaisesOneFaultThroughAWindowToo) {
  const std::uint32_t window = *keys_.windows().add(kPagedPd, WindowType::kType2);
  const std::uint32_t bound = (window & ~0xFFU) | ((window + 1) & 0xFFU);
  ASSERT_EQ(keys_.bind_window(window,
                              {.new_key = bound,
                               .lkey = key_,
                               .address = kPagedIova + 64,
                               .length = 4096,
                               .access = kAccessRemoteWrite | kAccessRemoteAtomic},
                              {.pd = kPagedPd, .qpn = kQpn}),
            WindowChange::kDone);
  EXPECT_EQ(write(bound), Access::kNotResident);
  ASSERT_EQ(faults_.raised.size(), 1U);
  EXPECT_EQ(faults_.raised[0].address, kProgram + 100);
  settle(Access::kNoRight, kProgram);
  EXPECT_EQ(write(bound), Access::kNoRight);
  std::uint64_t original = 0;
  EXPECT_EQ(fetch_add_remote(scope(), {.rkey = bound, .address = kPagedIova + 104, .length = 8}, 1,
                             &original),
            Access::kNotResident);
  EXPECT_EQ(faults_.raised.back().address, kProgram + 104);
}

TEST_F(OnDemandMemory, AFailedFaultFailsOneAccess) {
  EXPECT_EQ(write(key_), Access::kNotResident);
  settle(Access::kLost, kProgram);
  EXPECT_EQ(write(key_), Access::kLost);
  EXPECT_EQ(write(key_), Access::kNotResident);
}

TEST_F(OnDemandMemory, RetriesWhenNoRecordWasFree) {
  faults_.starved = true;
  EXPECT_EQ(write(key_), Access::kNotResident);
  faults_.starved = false;
  EXPECT_EQ(write(key_), Access::kNotResident);
  EXPECT_EQ(faults_.raised.size(), 2U);
  EXPECT_TRUE(slot_.waiting);
}

TEST_F(OnDemandMemory, AFlushParksAndFindsItsOutcome) { expect_flushes_to_park(key_); }

TEST_F(OnDemandMemory, AFlushOfPinnedMemoryParksToo) {
  std::vector<std::byte> memory(kPagedBytes);
  Region::Config config = like_both();
  config.pieces = {{.start = 0, .length = kPagedBytes, .host = memory.data(), .remote_address = 0}};
  const std::uint32_t key = *keys_.add(std::make_unique<Region>(std::move(config)));
  expect_flushes_to_park(key);
  faults_.starved = true;
  EXPECT_EQ(flush(key), Access::kNotResident);
  EXPECT_FALSE(slot_.waiting);
  faults_.starved = false;
  EXPECT_EQ(flush(key), Access::kNotResident);
  keys_.remove(key);
  settle(Access::kGranted);
  EXPECT_EQ(flush(key), Access::kUnknownKey) << "deregistered during the flush";
}

}  // namespace
}  // namespace uroce::test
