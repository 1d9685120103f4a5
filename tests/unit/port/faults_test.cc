#include "dataplane/port/faults.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce {
namespace {

TEST(Faults, ParsesEveryKey) {
  const Result<Faults> faults =
      parse_faults("loss=0.01,dup=0.02,reorder=0.03,corrupt=0.001,delay=20us,seed=7");
  ASSERT_TRUE(faults);
  EXPECT_DOUBLE_EQ(faults->loss, 0.01);
  EXPECT_DOUBLE_EQ(faults->dup, 0.02);
  EXPECT_DOUBLE_EQ(faults->reorder, 0.03);
  EXPECT_DOUBLE_EQ(faults->corrupt, 0.001);
  EXPECT_EQ(faults->delay, 20'000U);
  EXPECT_EQ(faults->seed, 7U);
  EXPECT_TRUE(faults->any());
}

TEST(Faults, NothingIsNoFaults) {
  const Result<Faults> faults = parse_faults("");
  ASSERT_TRUE(faults);
  EXPECT_FALSE(faults->any());
}

TEST(Faults, WhatIsPrintedParsesToTheSame) {
  const Result<Faults> faults = parse_faults("dup=0.5,delay=3ms,seed=99");
  const Result<Faults> again = parse_faults(to_string(*faults));
  ASSERT_TRUE(again);
  EXPECT_DOUBLE_EQ(again->dup, 0.5);
  EXPECT_EQ(again->delay, 3 * kNanosecondsPerMillisecond);
  EXPECT_EQ(again->seed, 99U);
}

TEST(Faults, AnErrorNamesTheKey) {
  struct Case {
    const char* spec;
    const char* named;
  };
  for (const Case& wrong :
       {Case{"loss=2", "'loss'"}, Case{"loss=-0.1", "'loss'"}, Case{"loss=nan", "'loss'"},
        Case{"dup", "'dup'"}, Case{"delay=20", "'delay'"}, Case{"delay=5s", "'delay'"},
        Case{"delay=us", "'delay'"}, Case{"seed=x", "'seed'"}, Case{"lost=0.1", "'lost'"},
        Case{"loss=0,loss=0", "'loss'"}}) {
    const Result<Faults> faults = parse_faults(wrong.spec);
    ASSERT_FALSE(faults) << wrong.spec;
    EXPECT_EQ(faults.error().code, EINVAL);
    EXPECT_NE(faults.error().message.find(wrong.named), std::string::npos)
        << faults.error().message;
  }
}

}  // namespace
}  // namespace uroce
