#include "base/verified_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/unit/taken_number.h"

namespace uroce::test {
namespace {

UniqueFd any_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(VerifiedDescriptor, IsClosedInTheEnd) {
  VerifiedDescriptor kept;
  EXPECT_FALSE(kept.kept());
  EXPECT_EQ(kept.get(), -1);
  UniqueFd socket = any_socket();
  const int number = socket.get();
  kept.keep(std::move(socket));
  EXPECT_EQ(kept.get(), number);
  kept.keep(any_socket());
  EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "another is kept instead";
  kept.end();
  EXPECT_FALSE(kept.kept());
  EXPECT_EQ(kept.get(), -1);
}

TEST(VerifiedDescriptor, IsLostToWhoeverGetsItsNumber) {
  VerifiedDescriptor kept;
  kept.keep(any_socket());
  const TakenNumber taken(kept.get());
  errno = 0;
  EXPECT_EQ(kept.get(), -1);
  EXPECT_TRUE(kept.kept());
  kept.end();
  EXPECT_FALSE(kept.kept());
  EXPECT_EQ(errno, 0);
}

TEST(VerifiedDescriptor, IsLostWhenItIsClosed) {
  VerifiedDescriptor kept;
  kept.keep(any_socket());
  ::close(kept.get());
  errno = 0;
  EXPECT_EQ(kept.get(), -1);
  EXPECT_EQ(errno, 0);
}

}  // namespace
}  // namespace uroce::test
