#include "control/commands/address_follower.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "control/commands/address_changes.h"
#include "control/ip/kernel/interface_addresses.h"
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

// What is logged while it exists.
class Logged {
 public:
  Logged() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(text_)));
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

  [[nodiscard]] bool says(const std::string& words) const {
    return text_.str().find(words) != std::string::npos;
  }
  [[nodiscard]] bool names(const std::string& interface) const {
    return says("addresses of " + interface + " can't be listed");
  }

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
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

TEST_F(AddressFollowerTest, EachInterfaceThatFailsIsNamed) {
  ASSERT_TRUE(follower_);
  follower_->follow(0, "lo");
  follower_->follow(0, "other0");
  const auto fail = [this] {
    const Logged logged;
    const NoDescriptors now;
    follower_->check_again();
    return std::pair(logged.names("lo"), logged.names("other0"));
  };
  EXPECT_EQ(fail(), std::pair(true, true));
  EXPECT_EQ(fail(), std::pair(false, false)) << "not each time";
}

TEST_F(AddressFollowerTest, AnInterfaceThatIsGoneHasNoAddresses) {
  ASSERT_TRUE(follower_);
  follower_->follow(0, "gone0");
  follower_->on_change();
  EXPECT_FALSE(has("10.0.0.1"));
}

// Two devices of which the second has lo's address, and the first follows lo.
class AddressThatMoves : public testing::Test {
 protected:
  void SetUp() override {
    const auto addresses = interface_addresses("lo");
    if (!addresses || addresses->front().address != *parse_ip("127.0.0.1")) {
      GTEST_SKIP() << "lo has no address here";
    }
    ASSERT_TRUE(follower_);
    ASSERT_TRUE(add_address(rig_.card, rig_.kernel, second(), *parse_prefix("127.0.0.1/8")));
    follower_->follow(0, "lo");
  }
  Device& second() { return rig_.card.devices()[1]; }
  bool arrived() { return rig_.card.devices()[0].gids().owns(*parse_ip("127.0.0.1")); }

  Rig rig_{std::make_unique<LoopbackPort>(4200, 1), 1, std::make_unique<LoopbackPort>(4200, 1)};
  Result<AddressFollower> follower_ = AddressFollower::open(rig_.card, rig_.kernel);
};

TEST_F(AddressThatMoves, IsLostByALaterPortFirst) {
  follower_->follow(1, "gone0");
  follower_->on_change();
  EXPECT_TRUE(arrived());
  EXPECT_FALSE(second().gids().owns(*parse_ip("127.0.0.1")));
  EXPECT_EQ(follower_->next_check(), kNever);
}

TEST_F(AddressThatMoves, IsTriedAgainWhileAnotherHasIt) {
  const std::string line =
      "can't add the address 127.0.0.1/8 of lo, which is tried again every 5 s";
  {
    const Logged logged;
    follower_->on_change();
    EXPECT_TRUE(logged.says(line));
  }
  EXPECT_EQ(follower_->next_check(), rig_.now + 5 * kNanosecondsPerSecond);
  {
    const Logged logged;
    follower_->check_again();
    EXPECT_FALSE(logged.says(line)) << "not each time";
  }
  ASSERT_TRUE(remove_address(rig_.card, rig_.kernel, second(), *parse_ip("127.0.0.1")));
  follower_->check_again();
  EXPECT_TRUE(arrived());
  EXPECT_EQ(follower_->next_check(), kNever);
}

}  // namespace
}  // namespace uroce::control
