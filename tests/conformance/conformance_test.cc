// Every case of the corpus, in memory. The same files are played on a wire by dts/.

#include <gtest/gtest.h>

#include "tests/conformance/player.h"
#include "tests/conformance/script.h"

namespace uroce::test {
namespace {

std::vector<Script> corpus() {
  const auto scripts = read_scripts(UROCE_SOURCE_ROOT "/tests/conformance/cases");
  return scripts ? *scripts : std::vector<Script>{};
}

class Conformance : public testing::TestWithParam<Script> {};

TEST_P(Conformance, PlaysAsWritten) { EXPECT_EQ(Player(GetParam()).play(), ""); }

INSTANTIATE_TEST_SUITE_P(Corpus, Conformance, testing::ValuesIn(corpus()),
                         [](const auto& instance) { return instance.param.name; });

// A corpus that can't be read must not pass as an empty one.
TEST(ConformanceCorpus, IsThereAndNamesItsClauses) {
  const std::vector<Script> scripts = corpus();
  EXPECT_GE(scripts.size(), 60U);
  for (const Script& script : scripts) {
    EXPECT_FALSE(script.clause.empty()) << script.name;
  }
}

}  // namespace

void PrintTo(const Script& script, std::ostream* out) { *out << script.file << " " << script.name; }

}  // namespace uroce::test
