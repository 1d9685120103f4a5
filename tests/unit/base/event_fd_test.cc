#include "base/event_fd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

namespace uroce::test {
namespace {

bool readable(const EventFd& event) {
  pollfd wanted{.fd = event.get(), .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) == 1;
}

TEST(EventFd, IsReadableFromRingToQuieten) {
  auto made = EventFd::make();
  ASSERT_TRUE(made);
  EventFd& event = *made;
  EXPECT_FALSE(readable(event));
  event.ring();
  EventFd::ring(event.get());
  EXPECT_TRUE(readable(event));
  event.clear();
  EXPECT_FALSE(readable(event));
  event.clear();
  EXPECT_FALSE(readable(event)) << "twice waits for nothing";
}

// This used to be a failed assertion.
TEST(EventFd, WithoutDescriptorsIsNotValid) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const EventFd event;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(event.valid());
}

}  // namespace
}  // namespace uroce::test
