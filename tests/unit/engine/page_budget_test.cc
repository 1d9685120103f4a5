#include "dataplane/engine/turn/page_budget.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr std::uint32_t kQpn = 17;
constexpr std::uint32_t kOther = 18;

TEST(PageBudget, TheNumberOfWaitersIsBounded) {
  PageBudget budget;
  budget.begin(1);
  EXPECT_EQ(budget.deadline(), kNever);
  for (std::uint32_t qpn = 0; qpn < PageBudget::kWaitingMax; ++qpn) {
    EXPECT_TRUE(budget.wait(qpn));
  }
  EXPECT_TRUE(budget.wait(0)) << "it is a waiter already";
  EXPECT_FALSE(budget.wait(PageBudget::kWaitingMax));
  EXPECT_EQ(budget.serve_next(), 0U);
  EXPECT_TRUE(budget.wait(PageBudget::kWaitingMax));
}

TEST(PageBudget, PagesPerTurnAreBounded) {
  PageBudget budget;
  budget.begin(1);
  for (std::uint32_t page = 0; page < PageBudget::kTurnMax; ++page) {
    EXPECT_TRUE(budget.may_populate(kQpn));
    budget.charge_page(0);
  }
  EXPECT_FALSE(budget.may_populate(kQpn));
  budget.begin(1);
  EXPECT_TRUE(budget.may_populate(kQpn));
}

TEST(PageBudget, ABusyWorkerBringsInOnePagePerInterval) {
  PageBudget budget;
  budget.begin(1);
  budget.set_busy(true);
  EXPECT_TRUE(budget.may_populate(kQpn));
  budget.charge_page(0);
  EXPECT_FALSE(budget.may_populate(kQpn));
  budget.begin(PageBudget::kInterval);
  EXPECT_FALSE(budget.may_populate(kQpn));
  budget.begin(1 + PageBudget::kInterval);
  EXPECT_TRUE(budget.may_populate(kQpn));
}

TEST(PageBudget, SlowPagesAreBroughtInLessOften) {
  constexpr Duration kSlow = 20 * kNanosecondsPerMicrosecond;
  PageBudget budget;
  budget.begin(1);
  budget.set_busy(true);
  budget.charge_page(kSlow);
  budget.begin(kSlow * PageBudget::kShare);
  EXPECT_FALSE(budget.may_populate(kQpn));
  budget.begin(1 + kSlow * PageBudget::kShare);
  EXPECT_TRUE(budget.may_populate(kQpn));
}

TEST(PageBudget, APageThatSeemsToTakeForeverDelaysTheNextByABoundedTime) {
  PageBudget budget;
  budget.begin(1);
  budget.set_busy(true);
  budget.charge_page(~Duration{0});
  budget.begin(PageBudget::kIntervalMax);
  EXPECT_FALSE(budget.may_populate(kQpn));
  budget.begin(1 + PageBudget::kIntervalMax);
  EXPECT_TRUE(budget.may_populate(kQpn));
}

TEST(PageBudget, WaitersComeFirst) {
  PageBudget budget;
  budget.begin(1);
  budget.set_busy(true);
  EXPECT_TRUE(budget.wait(kQpn));
  EXPECT_FALSE(budget.may_populate(kOther));
  EXPECT_TRUE(budget.wait(kOther));
  ASSERT_TRUE(budget.may_serve());
  EXPECT_EQ(budget.serve_next(), kQpn);
  budget.begin(2);  // kQpn is queued behind other senders
  EXPECT_FALSE(budget.may_serve());
  EXPECT_FALSE(budget.may_populate(kOther));
  EXPECT_TRUE(budget.may_populate(kQpn));
  budget.charge_page(0);
  EXPECT_FALSE(budget.may_serve()) << "the interval isn't over";
  budget.begin(2 + PageBudget::kInterval);
  ASSERT_TRUE(budget.may_serve());
  EXPECT_EQ(budget.serve_next(), kOther);
}

TEST(PageBudget, AnUnusedGrantExpires) {
  PageBudget budget;
  budget.begin(1);
  budget.set_busy(true);
  EXPECT_TRUE(budget.wait(kQpn));
  EXPECT_TRUE(budget.wait(kOther));
  EXPECT_EQ(budget.serve_next(), kQpn);
  EXPECT_EQ(budget.deadline(), 1 + PageBudget::kServedMax);
  budget.begin(1 + PageBudget::kServedMax);
  ASSERT_TRUE(budget.may_serve());
  EXPECT_EQ(budget.serve_next(), kOther);
  budget.set_busy(false);
  EXPECT_TRUE(budget.may_populate(kQpn)) << "there is no other work";
}

}  // namespace
}  // namespace uroce::test
