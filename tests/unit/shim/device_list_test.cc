// Which devices a program gets when it lists them again, also after the daemon was restarted.

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>

#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/objects/verbs.h"

namespace uroce::test {
namespace {

// A program's list.
class Listed {
 public:
  Listed() : list_(ibv_get_device_list(&count_)) {}
  ~Listed() { ibv_free_device_list(list_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

  // nullptr: there is none.
  [[nodiscard]] ibv_device* device() const { return list_[0]; }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_ = -1;
  ibv_device** list_;
};

class DeviceList : public testing::Test {
 protected:
  void SetUp() override { setenv("UROCE_QUIET", "1", 1); }

  void restart() {
    daemon->die();
    daemon = std::make_unique<FakeDaemon>();
  }

  std::unique_ptr<FakeDaemon> daemon = std::make_unique<FakeDaemon>();
};

TEST_F(DeviceList, HasTheSameDeviceAsLongAsTheDaemonRuns) {
  const Listed first;
  ASSERT_EQ(first.count(), 1);
  {
    const Listed second;
    EXPECT_EQ(second.device(), first.device());
  }
  daemon->refuse(abi::Command::kListDevices, ENOMEM);
  EXPECT_EQ(Listed().count(), 0);
  daemon->refuse(abi::Command::kListDevices, 0);
  EXPECT_EQ(Listed().device(), first.device());
  EXPECT_EQ(ibv_get_device_index(first.device()), static_cast<int>(daemon->instance()));
}

TEST_F(DeviceList, HasAnotherDeviceOfARestartedDaemon) {
  const Listed before;
  const auto index_before = static_cast<int>(daemon->instance());
  restart();
  const Listed now;
  ASSERT_EQ(now.count(), 1);
  EXPECT_NE(now.device(), before.device());
  EXPECT_STREQ(ibv_get_device_name(now.device()), ibv_get_device_name(before.device()));
  EXPECT_EQ(ibv_get_device_index(now.device()), static_cast<int>(daemon->instance()));
  EXPECT_EQ(ibv_get_device_index(before.device()), index_before);
}

TEST_F(DeviceList, OfARestartedDaemonHasWhatCanBeOpened) {
  ibv_context* const before = ibv_open_device(Listed().device());
  ASSERT_NE(before, nullptr);
  restart();
  ibv_context* const now = ibv_open_device(Listed().device());
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(ibv_alloc_pd(before), nullptr) << "its daemon is gone";
  EXPECT_EQ(errno, ENODEV);
  ibv_pd* const pd = ibv_alloc_pd(now);
  ASSERT_NE(pd, nullptr);
  EXPECT_NE(now->device, before->device);
  EXPECT_STREQ(ibv_get_device_name(before->device), "uroce0") << "the context has it";
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(before), 0);
  EXPECT_EQ(ibv_close_device(now), 0);
}

// It never got further than its first list.
TEST_F(DeviceList, OfTheDaemonBeforeOpensTheNextOnes) {
  auto before = std::make_unique<Listed>();
  ibv_device* const device = before->device();
  restart();
  const auto index_before = ibv_get_device_index(device);
  ibv_context* const context = ibv_open_device(device);
  ASSERT_NE(context, nullptr);
  before.reset();
  EXPECT_EQ(ibv_get_device_index(context->device), static_cast<int>(daemon->instance()));
  EXPECT_EQ(ibv_get_device_guid(context->device), daemon->instance());
  EXPECT_EQ(context->device, Listed().device());
  EXPECT_NE(context->device, device) << "another one is in its place";
  EXPECT_EQ(ibv_get_device_index(device), index_before)
      << "it is valid until the context is closed";
  ibv_pd* const pd = ibv_alloc_pd(context);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

// Else the older answer would be the last, and the newer device gone with its list.
TEST_F(DeviceList, IsAskedForByOneThreadAtATime) {
  daemon->hold(abi::Command::kListDevices);
  auto older = std::async(std::launch::async, [] { return Listed().count(); });
  daemon->await_held();
  const FakeDaemon next;
  auto newer = std::async(std::launch::async, [] { return Listed().count(); });
  EXPECT_EQ(newer.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  daemon->release();
  EXPECT_EQ(older.get(), 1);
  EXPECT_EQ(newer.get(), 1);
}

TEST_F(DeviceList, ThatIsNoneIsFreed) { ibv_free_device_list(nullptr); }

}  // namespace
}  // namespace uroce::test
