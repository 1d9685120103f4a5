// Values that headers and attributes carry as codes.

#include <gtest/gtest.h>

#include "dataplane/wire/path_mtu.h"
#include "dataplane/wire/timer_code.h"

namespace uroce {
namespace {

TEST(PathMtu, IsAPowerOfTwoFrom256To4096) {
  for (const std::uint32_t bytes : {256U, 512U, 1'024U, 2'048U, 4'096U}) {
    EXPECT_TRUE(is_path_mtu(bytes)) << bytes;
  }
  for (const std::uint32_t bytes : {0U, 128U, 257U, 1'500U, 8'192U}) {
    EXPECT_FALSE(is_path_mtu(bytes)) << bytes;
  }
  for (std::uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(is_path_mtu_code(code), is_path_mtu(mtu_bytes(code))) << code;
  }
}

TEST(TimerCode, DoublesFrom4Microseconds) {
  EXPECT_EQ(timer_duration(0), 4'096);
  EXPECT_EQ(timer_duration(14), 4'096 << 14);
  EXPECT_EQ(timer_duration(kTimerCodeMax), Duration{4'096} << 31);
}

}  // namespace
}  // namespace uroce
