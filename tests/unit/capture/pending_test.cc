#include "apps/capture/pending.h"

#include <gtest/gtest.h>

namespace uroce::capture {
namespace {

Record record(abi::CaptureKind kind, std::uint32_t serial, Time time, std::uint8_t why = 0) {
  Record made;
  made.head.kind = kind;
  made.head.serial = serial;
  made.head.time = time;
  made.head.why = why;
  return made;
}

std::vector<Record> released(Pending& pending, Time now, bool all = false) {
  std::vector<Record> out;
  pending.release(now, all, [&](const Record& one) { out.push_back(one); });
  return out;
}

TEST(Pending, AFateIsMatchedWithItsFrame) {
  Pending pending;
  pending.add(record(abi::CaptureKind::kReceived, 1, 10));
  pending.add(record(abi::CaptureKind::kReceived, 2, 20));
  pending.add(record(abi::CaptureKind::kLateDrop, 2, 30, 8));
  pending.add(record(abi::CaptureKind::kLateDrop, 77, 30, 8));  // of a frame that isn't held
  const auto out = released(pending, 0, true);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_FALSE(out[0].dropped);
  EXPECT_EQ(out[1].dropped, 8);
}

TEST(Pending, HoldsForAWhile) {
  Pending pending;
  pending.add(record(abi::CaptureKind::kReceived, 1, 1'000));
  EXPECT_TRUE(released(pending, 1'000 + Pending::kHeld - 1).empty());
  EXPECT_EQ(released(pending, 1'000 + Pending::kHeld).size(), 1U);
  pending.add(record(abi::CaptureKind::kLateDrop, 1, 30, 8));
  EXPECT_TRUE(released(pending, 0, true).empty());
}

TEST(Pending, HoldsABoundedNumber) {
  Pending pending;
  for (std::uint32_t i = 1; i <= Pending::kMax + 10; ++i) {
    pending.add(record(abi::CaptureKind::kReceived, i, 1'000));
  }
  EXPECT_EQ(released(pending, 1'000).size(), 10U);
}

}  // namespace
}  // namespace uroce::capture
