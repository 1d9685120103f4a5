#include "control/commands/address_follower.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

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

  [[nodiscard]] bool names(const std::string& interface) const {
    return text_.str().find("addresses of " + interface + " can't be listed") != std::string::npos;
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

}  // namespace
}  // namespace uroce::control
