#pragma once

// Checks a completion.

#include <gtest/gtest.h>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {

// The next completion of the end's send queue is that of this work request, without an error.
inline void expect_success(Endpoint& end, std::uint64_t wr_id) {
  const auto cqe = end.poll_send();
  ASSERT_TRUE(cqe.has_value()) << "no completion of " << wr_id;
  EXPECT_EQ(cqe->wr_id, wr_id);
  EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
}

}  // namespace uroce::test
