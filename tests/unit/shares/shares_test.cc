#include "shares/shares.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <thread>
#include <vector>

namespace uroce {
namespace {

constexpr std::uint64_t kAll = 6'400;                  // of each resource
constexpr std::uint64_t kOrdinary = kAll - kAll / 64;  // without the administrators' part

class SharesTest : public ::testing::Test {
 protected:
  static Amounts all() {
    Amounts amounts;
    amounts.fill(kAll);
    return amounts;
  }
  std::shared_ptr<Account> user(uid_t offset) { return shares.of({.uid = ::geteuid() + offset}); }
  // Charges as many as the account may have.
  static std::vector<Charge> take_all(Account& account, Limit limit) {
    std::vector<Charge> taken;
    for (auto charge = account.charge(limit); charge; charge = account.charge(limit)) {
      taken.push_back(std::move(*charge));
    }
    return taken;
  }
  static std::string sentence(Account& account, Limit limit, std::uint64_t amount = 1) {
    const auto charge = account.charge(limit, amount);
    EXPECT_FALSE(charge.has_value());
    EXPECT_EQ(charge ? 0 : charge.error().code, ENOMEM);
    return charge ? "" : charge.error().message;
  }

  Shares shares{all()};
};

TEST_F(SharesTest, EachUserMayHaveHalfOfWhatOthersLeave) {
  const auto first = user(1), second = user(2), third = user(3);
  const auto ones = take_all(*first, Limit::kQps);
  EXPECT_EQ(ones.size(), kOrdinary / 2);
  const auto twos = take_all(*second, Limit::kQps);
  EXPECT_EQ(twos.size(), kOrdinary / 4);
  const auto threes = take_all(*third, Limit::kQps);
  EXPECT_EQ(threes.size(), (kOrdinary - kOrdinary / 2 - kOrdinary / 4) / 2);
  EXPECT_EQ(sentence(*first, Limit::kQps),
            "user " + std::to_string(::geteuid() + 1) +
                " has 3150 queue pairs and can't have 1 more: half of what others leave is 1969; "
                "qps under [limits." +
                std::to_string(::geteuid() + 1) + "] in uroce.toml gives more");
  EXPECT_EQ(first->used(Limit::kCqs), 0U);
}

TEST_F(SharesTest, AdministratorsMayHaveTheRest) {
  const auto root = shares.of({.uid = 0}), own = shares.of({.uid = ::geteuid()}), other = user(1);
  const auto others = take_all(*other, Limit::kPds);
  EXPECT_EQ(take_all(*root, Limit::kPds).size(), kAll - others.size());
  EXPECT_EQ(take_all(*own, Limit::kPds).size(), kAll - others.size());
  const auto all = take_all(*root, Limit::kPds);
  EXPECT_EQ(sentence(*own, Limit::kPds),
            "6400 of all 6400 protection domains are taken, and 1 more can't be had");
  EXPECT_EQ(sentence(*own, Limit::kMappings, kAll + 1),
            "0 of all 6400 mappings of the daemon's are taken, and 6401 more can't be had; "
            "vm.max_map_count raises it");
}

TEST_F(SharesTest, TheLastPartIsReservedForAdministrators) {
  std::vector<std::vector<Charge>> taken;
  for (uid_t offset = 1; offset < 40; ++offset) {
    taken.push_back(take_all(*user(offset), Limit::kSessions));
  }
  EXPECT_GE(take_all(*shares.of({.uid = 0}), Limit::kSessions).size(), kAll / 64);
}

TEST_F(SharesTest, ConfiguredLimitsReplaceTheHalf) {
  ConfiguredLimits limits;
  limits.of_everybody[Limit::kCqs] = 10;
  limits.of_user[::geteuid() + 1] = {"alice", {{Limit::kCqs, 20}, {Limit::kQps, 6'000}}};
  limits.of_user[0] = {"root", {{Limit::kCqs, 5}}};
  shares.set_limits(limits);
  EXPECT_EQ(take_all(*user(1), Limit::kCqs).size(), 20U);
  EXPECT_EQ(take_all(*user(2), Limit::kCqs).size(), 10U);
  EXPECT_EQ(take_all(*user(1), Limit::kQps).size(), 6'000U);
  EXPECT_EQ(take_all(*shares.of({.uid = 0}), Limit::kCqs).size(), 5U);
  EXPECT_EQ(
      sentence(*user(1), Limit::kCqs, 21),
      "user alice has 0 completion queues and can't have 21 more: cqs under [limits.alice] in "
      "uroce.toml allows 20");
  EXPECT_EQ(sentence(*user(2), Limit::kCqs, 11),
            "user " + std::to_string(::geteuid() + 2) +
                " has 0 completion queues and can't have 11 more: each user may have 10; cqs under "
                "[limits." +
                std::to_string(::geteuid() + 2) + "] in uroce.toml raises it");
}

TEST_F(SharesTest, AChargeOfSeveralLimitsIsAllOrNothing) {
  const auto account = user(1);
  {
    const auto charge = account->charge({{Limit::kQueueMemory, 4'096}, {Limit::kMappings}});
    EXPECT_FALSE(charge.has_value()) << "the memory is too much";
    EXPECT_EQ(account->used(Limit::kMappings), 0U);
  }
  {
    const auto charge = account->charge({{Limit::kQueueMemory, 100}, {Limit::kMappings}});
    ASSERT_TRUE(charge.has_value());
    EXPECT_EQ(account->used(Limit::kQueueMemory), 100U);
    EXPECT_EQ(account->used(Limit::kMappings), 1U);
  }
  for (std::size_t limit = 0; limit < kLimitCount; ++limit) {
    EXPECT_EQ(shares.used(static_cast<Limit>(limit)), 0U) << kLimits[limit].name;
  }
}

TEST_F(SharesTest, AChargeGrowsAndShrinks) {
  const auto account = user(1);
  auto charge = account->charge(Limit::kMappings);
  ASSERT_TRUE(charge.has_value());
  EXPECT_TRUE(charge->resize(1'000).has_value());
  EXPECT_EQ(shares.used(Limit::kMappings), 1'000U);
  EXPECT_FALSE(charge->resize(kAll).has_value());
  EXPECT_EQ(shares.used(Limit::kMappings), 1'000U);
  EXPECT_TRUE(charge->resize(10).has_value());
  EXPECT_EQ(account->used(Limit::kMappings), 10U);
}

TEST_F(SharesTest, AnAccountLivesAsLongAsItsCharges) {
  auto charge = user(1)->charge(Limit::kAhs);
  ASSERT_TRUE(charge.has_value());
  EXPECT_EQ(shares.accounts().size(), 1U);
  EXPECT_EQ(user(1)->used(Limit::kAhs), 1U);
  *charge = Charge();
  EXPECT_TRUE(shares.accounts().empty());
}

TEST_F(SharesTest, ThreadsChargeAndReleaseConcurrently) {
  std::vector<std::thread> threads;
  for (uid_t offset = 1; offset <= 4; ++offset) {
    threads.emplace_back([this, offset] {
      for (int i = 0; i < 10'000; ++i) {
        const auto charge = user(offset % 2)->charge({{Limit::kMappings, 3}, {Limit::kQps}});
        EXPECT_TRUE(charge.has_value());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(shares.used(Limit::kMappings), 0U);
  EXPECT_TRUE(shares.accounts().empty());
}

TEST(Limits, HaveDistinctNames) {
  std::set<std::string_view> names;
  for (const LimitFacts& facts : kLimits) {
    EXPECT_TRUE(names.insert(facts.name).second) << facts.name;
    EXPECT_EQ(facts_of(*limit_named(facts.name)).name, facts.name);
    EXPECT_GT(facts.of_daemon, 0U);
  }
  EXPECT_FALSE(limit_named("quarks").has_value());
}

}  // namespace
}  // namespace uroce
