#include "dataplane/port/ethdev/card_interrupts.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/unique_fd.h"

namespace uroce::test {
namespace {

TEST(CardInterrupts, EachSignalIsTakenOnce) {
  const UniqueFd card{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  EXPECT_FALSE(take_signal(card.get()));
  for (int i = 0; i < 2; ++i) {
    eventfd_write(card.get(), 1);
    eventfd_write(card.get(), 1);
    EXPECT_TRUE(take_signal(card.get()));
    EXPECT_FALSE(take_signal(card.get()));
  }
}

// DPDK may have closed it.
TEST(CardInterrupts, ADescriptorThatIsGoneHasNone) { EXPECT_FALSE(take_signal(-1)); }

}  // namespace
}  // namespace uroce::test
