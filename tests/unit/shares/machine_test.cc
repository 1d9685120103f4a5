// How much of this process's resources users may have.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "shares/shares.h"

namespace uroce {
namespace {

TEST(Machine, KeepsAReserveOfDescriptorsAndMappings) {
  const Amounts maxima = maxima_of_this_machine();
  rlimit descriptors{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  const std::uint64_t of_users = maxima[Limit::kDescriptors];
  if (descriptors.rlim_cur < facts_of(Limit::kDescriptors).of_daemon) {
    EXPECT_LT(of_users, descriptors.rlim_cur - descriptors.rlim_cur / 17);
  }
  EXPECT_GT(of_users, descriptors.rlim_cur / 2);
  const std::uint64_t mappings = mappings_of_a_process();
  EXPECT_LT(maxima[Limit::kMappings], mappings - mappings / 17);
  EXPECT_GT(maxima[Limit::kMappings], mappings / 2);
  EXPECT_EQ(maxima[Limit::kQps], facts_of(Limit::kQps).of_daemon);
}

TEST(Machine, WithFewDescriptorsHasFewForUsers) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Amounts maxima = maxima_of_this_machine();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(maxima[Limit::kDescriptors], 0U);
}

}  // namespace
}  // namespace uroce
