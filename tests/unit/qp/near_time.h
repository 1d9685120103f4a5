#pragma once

// Compares a value of a latency histogram with the exact time.

#include <gtest/gtest.h>

#include "base/time.h"

namespace uroce::test {

// Percentiles are the middle of a bucket whose width is a quarter of its start.
inline void expect_near_time(Duration value, Duration exact) {
  EXPECT_GE(value, exact - exact / 8);
  EXPECT_LE(value, exact + exact / 8);
}

}  // namespace uroce::test
