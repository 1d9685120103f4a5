#include "control/commands/address_follower.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

// A process that can open no more descriptors.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

class AddressFollowerTest : public testing::Test {
 protected:
  [[nodiscard]] bool has(const char* address) {
    return rig_.card.devices().front().gids().owns(*parse_ip(address));
  }

  Rig rig_{1};
  Result<AddressFollower> follower_ = AddressFollower::open(rig_.card, rig_.kernel);
};

TEST_F(AddressFollowerTest, AFailedListingRemovesNoAddress) {
  ASSERT_TRUE(follower_);
  follower_->follow(0, "lo");
  {
    const NoDescriptors now;
    follower_->on_change();
  }
  EXPECT_TRUE(has("10.0.0.1"));
  ASSERT_NE(follower_->next_check(), kNever) << "the kernel doesn't report the change again";
  rig_.now = follower_->next_check();
  follower_->check_again();
  EXPECT_EQ(follower_->next_check(), kNever);
  EXPECT_FALSE(has("10.0.0.1")) << "lo hasn't got it";
}

TEST_F(AddressFollowerTest, AnInterfaceThatIsGoneHasNoAddresses) {
  ASSERT_TRUE(follower_);
  follower_->follow(0, "gone0");
  follower_->on_change();
  EXPECT_FALSE(has("10.0.0.1"));
}

}  // namespace
}  // namespace uroce::control
