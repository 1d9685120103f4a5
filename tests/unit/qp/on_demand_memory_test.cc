// Memory that is paged on demand, as roles reach it: what isn't resident raises one fault, by
// whatever key it was named, and its outcome is met by the next look.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "dataplane/qp/memory.h"
#include "mmu/mirror.h"
#include "mmu/quiescence.h"

namespace uroce::test {
namespace {

constexpr PdId kPd = 7;
constexpr std::uint32_t kQpn = 17;
constexpr std::uint64_t kIova = 0x10'0000;
constexpr std::uint64_t kProgram = 0x7000'0000'0000;
constexpr std::uint64_t kLength = 1U << 20U;

class Faults final : public FaultSink {
 public:
  bool raise(const FaultRequest& request, std::shared_ptr<Mirror> /*mirror*/, std::uint32_t qpn,
             FaultRole /*role*/, std::uint32_t /*ticket*/) override {
    EXPECT_EQ(qpn, kQpn);
    raised.push_back(request);
    return !starved;
  }
  [[nodiscard]] Duration usual_time() const override { return 0; }
  std::vector<FaultRequest> raised;
  bool starved = false;
};

class OnDemandMemory : public testing::Test {
 protected:
  OnDemandMemory() {
    Region::Config config;
    config.pd = kPd;
    config.access = kAccessLocalWrite | kAccessMwBind | kAccessRemoteRead | kAccessRemoteWrite |
                    kAccessRemoteAtomic | kAccessFlushPersistent;
    config.iova = kIova;
    config.length = kLength;
    config.mirror = std::make_shared<Mirror>(quiescence_, UniqueFd());
    config.program_address = kProgram;
    key_ = *keys_.add(std::make_unique<Region>(std::move(config)));
  }
  MemoryScope scope() {
    return {.keys = keys_, .pd = kPd, .qpn = kQpn, .faults = &faults_, .slot = &slot_};
  }
  Access write(std::uint32_t key) {
    return write_remote(scope(), {.rkey = key, .address = kIova + 100, .length = 8, .ahead = 50},
                        bytes_.data());
  }
  Access flush(bool whole_region = false) {
    return flush_remote(scope(), {.rkey = key_, .address = kIova + 100, .length = 500},
                        whole_region, kAccessFlushPersistent);
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

TEST_F(OnDemandMemory, RaisesItByAWindowToo) {
  const std::uint32_t window = *keys_.windows().add(kPd, WindowType::kType2);
  const std::uint32_t bound = (window & ~0xFFU) | ((window + 1) & 0xFFU);
  ASSERT_EQ(keys_.bind_window(window,
                              {.new_key = bound,
                               .lkey = key_,
                               .address = kIova + 64,
                               .length = 4096,
                               .access = kAccessRemoteWrite | kAccessRemoteAtomic},
                              {.pd = kPd, .qpn = kQpn}),
            WindowChange::kDone);
  EXPECT_EQ(write(bound), Access::kNotResident);
  ASSERT_EQ(faults_.raised.size(), 1U);
  EXPECT_EQ(faults_.raised[0].address, kProgram + 100);
  settle(Access::kNoRight, kProgram);
  EXPECT_EQ(write(bound), Access::kNoRight);
  std::uint64_t original = 0;
  EXPECT_EQ(
      fetch_add_remote(scope(), {.rkey = bound, .address = kIova + 104, .length = 8}, 1, &original),
      Access::kNotResident);
  EXPECT_EQ(faults_.raised.back().address, kProgram + 104);
}

TEST_F(OnDemandMemory, WhatCannotBeHadFailsOnce) {
  EXPECT_EQ(write(key_), Access::kNotResident);
  settle(Access::kLost, kProgram);
  EXPECT_EQ(write(key_), Access::kLost);
  EXPECT_EQ(write(key_), Access::kNotResident);
}

TEST_F(OnDemandMemory, TriesAgainWhenNoRecordWasLeft) {
  faults_.starved = true;
  EXPECT_EQ(write(key_), Access::kNotResident);
  faults_.starved = false;
  EXPECT_EQ(write(key_), Access::kNotResident);
  EXPECT_EQ(faults_.raised.size(), 2U);
  EXPECT_TRUE(slot_.waiting);
}

TEST_F(OnDemandMemory, AFlushIsLeftToOthersAndItsOutcomeMet) {
  EXPECT_EQ(flush(), Access::kNotResident);
  EXPECT_EQ(flush(), Access::kNotResident);
  ASSERT_EQ(faults_.raised.size(), 1U);
  EXPECT_TRUE(faults_.raised[0].flush);
  EXPECT_EQ(faults_.raised[0].address, kProgram + 100);
  EXPECT_EQ(faults_.raised[0].length, 500U);
  settle(Access::kGranted);
  EXPECT_EQ(flush(), Access::kGranted);
  EXPECT_EQ(flush(true), Access::kNotResident);
  EXPECT_EQ(faults_.raised.back().address, kProgram);
  EXPECT_EQ(faults_.raised.back().length, kLength);
  settle(Access::kNoRight);
  EXPECT_EQ(flush(true), Access::kNoRight);
}

}  // namespace
}  // namespace uroce::test
