#include "dataplane/port/faults/faults.h"

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

TEST(Faults, AnEmptySpecMeansNoFaults) {
  const Result<Faults> faults = parse_faults("");
  ASSERT_TRUE(faults);
  EXPECT_FALSE(faults->any());
}

TEST(Faults, PrintedFaultsParseToTheSame) {
  const Result<Faults> faults = parse_faults("dup=0.5,delay=3ms,seed=99");
  const Result<Faults> again = parse_faults(to_string(*faults));
  ASSERT_TRUE(again);
  EXPECT_DOUBLE_EQ(again->dup, 0.5);
  EXPECT_EQ(again->delay, 3 * kNanosecondsPerMillisecond);
  EXPECT_EQ(again->seed, 99U);
}

TEST(Faults, ParsesABottleneck) {
  const Result<Faults> faults =
      parse_faults("rate=10gbit,queue=400k,kmin=100k,kmax=400k,pmax=0.5,delay=50us");
  ASSERT_TRUE(faults);
  EXPECT_EQ(faults->bottleneck, (BottleneckConfig{.rate = 10'000'000'000,
                                                  .queue = 400'000,
                                                  .kmin = 100'000,
                                                  .kmax = 400'000,
                                                  .pmax = 0.5}));
  EXPECT_EQ(faults->delay, 50'000U);
  EXPECT_TRUE(faults->any());
}

TEST(Faults, ABottleneckHasDefaults) {
  EXPECT_EQ(parse_faults("rate=500mbit")->bottleneck,
            (BottleneckConfig{.rate = 500'000'000, .queue = 400'000}))
      << "nothing is marked";
  EXPECT_EQ(parse_faults("rate=1gbit,kmin=1000,kmax=2m")->bottleneck,
            (BottleneckConfig{.rate = 1'000'000'000,
                              .queue = 2'000'000,
                              .kmin = 1'000,
                              .kmax = 2'000'000,
                              .pmax = 0.2}));
}

TEST(Faults, ParsesSeveralEvents) {
  const Result<Faults> faults = parse_faults("at=qp:0/psn:4/iter:2:drop,seed=3,at=qpn:0x11:ce");
  ASSERT_TRUE(faults);
  ASSERT_EQ(faults->events.size(), 2U);
  EXPECT_EQ(to_string(faults->events[0]), "qp:0/psn:4/iter:2:drop");
  EXPECT_EQ(to_string(faults->events[1]), "qpn:17/psn:0/iter:1:ce");
  EXPECT_TRUE(faults->any());
}

TEST(Faults, ABottleneckAndEventsArePrintedAsTheyParse) {
  const Result<Faults> faults = parse_faults(
      "rate=10gbit,queue=500k,kmin=100k,kmax=400k,pmax=0.2,at=qp:1/response/psn:4:late");
  const Result<Faults> again = parse_faults(to_string(*faults));
  ASSERT_TRUE(again) << to_string(*faults);
  EXPECT_EQ(again->bottleneck, faults->bottleneck);
  EXPECT_EQ(again->events, faults->events);
}

TEST(Faults, TheNumberOfEventsIsBounded) {
  std::string spec;
  for (std::size_t i = 0; i < FaultEvents::kEventsMax; ++i) {
    spec += "at=qp:0:drop,";
  }
  EXPECT_TRUE(parse_faults(spec));
  const Result<Faults> more = parse_faults(spec + "at=qp:0:drop");
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("more than 64 events"), std::string::npos);
}

TEST(Faults, AnErrorNamesTheKey) {
  struct Case {
    const char* spec;
    const char* named;
  };
  for (const Case& wrong : {Case{"loss=2", "'loss'"},
                            Case{"loss=-0.1", "'loss'"},
                            Case{"loss=nan", "'loss'"},
                            Case{"dup", "'dup'"},
                            Case{"delay=20", "'delay'"},
                            Case{"delay=5s", "'delay'"},
                            Case{"delay=us", "'delay'"},
                            Case{"seed=x", "'seed'"},
                            Case{"lost=0.1", "'lost'"},
                            Case{"loss=0,loss=0", "'loss'"},
                            Case{"rate=10", "'rate'"},
                            Case{"rate=0gbit", "'rate'"},
                            Case{"rate=2000gbit", "'rate'"},
                            Case{"kmin=100k,kmax=200k", "'rate'"},
                            Case{"rate=1gbit,queue=1g", "'queue'"},
                            Case{"rate=1gbit,queue=0", "'queue'"},
                            Case{"rate=1gbit,kmin=2k,kmax=1k", "'kmin'"},
                            Case{"rate=1gbit,kmin=2k", "'kmin'"},
                            Case{"rate=1gbit,queue=1k,kmax=2k", "'kmax'"},
                            Case{"rate=1gbit,pmax=2", "'pmax'"},
                            Case{"at", "'at'"},
                            Case{"at=drop", "'at'"}}) {
    const Result<Faults> faults = parse_faults(wrong.spec);
    ASSERT_FALSE(faults) << wrong.spec;
    EXPECT_EQ(faults.error().code, EINVAL);
    EXPECT_NE(faults.error().message.find(wrong.named), std::string::npos)
        << faults.error().message;
  }
}

}  // namespace
}  // namespace uroce
