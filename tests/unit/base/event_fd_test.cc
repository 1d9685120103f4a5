#include "base/event_fd.h"

#include <gtest/gtest.h>
#include <poll.h>

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
  event.quieten();
  EXPECT_FALSE(readable(event));
  event.quieten();
  EXPECT_FALSE(readable(event)) << "twice waits for nothing";
}

}  // namespace
}  // namespace uroce::test
