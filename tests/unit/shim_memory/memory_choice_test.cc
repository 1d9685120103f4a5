// UROCE_MEMORY. Each test runs in a process of its own, since the variable is read once.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/shim_memory/fresh_process.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::test {
namespace {

// The message printed for this value, and whether memory is shared.
bool shares_with(const char* value, std::string* said) {
  ::setenv("UROCE_MEMORY", value, 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  testing::internal::CaptureStderr();
  const bool shares = shim::sharing_state().share;
  *said = testing::internal::GetCapturedStderr();
  return shares;
}

TEST(MemoryChoice, AnInvalidValueIsReportedAndMemoryIsShared) {
  if (!is_fresh_process()) {
    return;
  }
  std::string said;
  EXPECT_TRUE(shares_with("bar", &said));
  EXPECT_EQ(said,
            "uroce: UROCE_MEMORY is \"bar\", but only \"share\" and \"copy\" are known: \"share\" "
            "is taken\n");
}

TEST(MemoryChoice, AKnownValueIsNotReported) {
  if (!is_fresh_process()) {
    return;
  }
  std::string said;
  EXPECT_FALSE(shares_with("copy", &said));
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace uroce::test
