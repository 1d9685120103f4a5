// The protocol of AddressWatch, explored in all orders (address_watch_model.h); every deliberate
// mistake in it is detected.

#include "tests/unit/shim/address_watch_model.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::shim::test {
namespace {

using model::Defect;
using model::Setting;
using model::Task;
using model::Violation;
using Kind = model::Task::Kind;

constexpr model::Range kFirst{0, 1}, kSecond{1, 2}, kBoth{0, 2}, kNothing{};

// A helper shares memory twice, while one thread unmaps it and another moves it.
Setting with_a_helper() {
  return {
      .places = 2,
      .threads = {{Task{Kind::kUnmap, {kFirst, kNothing}}},
                  {Task{Kind::kUnmap, {kFirst, kSecond}}},
                  {Task{Kind::kShare, {kFirst, kNothing}}, Task{Kind::kShare, {kBoth, kNothing}}}}};
}

// Two threads that keep changing memory, one of which has to wait for the other's place.
Setting with_one_place() {
  return {.places = 1,
          .threads = {
              {Task{Kind::kUnmap, {kFirst, kNothing}}, Task{Kind::kProtect, {kFirst, kNothing}}},
              {Task{Kind::kProtect, {kFirst, kSecond}}, Task{Kind::kUnmap, {kSecond, kNothing}}},
              {Task{Kind::kShare, {kFirst, kNothing}}, Task{Kind::kShare, {kBoth, kNothing}}}}};
}

// The process forks while one thread unmaps and a helper shares.
Setting with_a_fork(Defect defect) {
  return {
      .places = 2,
      .threads = {{Task{Kind::kUnmap, {kFirst, kNothing}}, Task{Kind::kUnmap, {kFirst, kNothing}}},
                  {Task{Kind::kFork, {kBoth, kNothing}}},
                  {Task{Kind::kShare, {kFirst, kNothing}}}},
      .defect = defect};
}

// One thread grants and takes rights while a helper shares and another thread unmaps.
Setting with_grants(Defect defect) {
  return {
      .places = 2,
      .threads = {{Task{Kind::kGrant, {kFirst, kNothing}}, Task{Kind::kProtect, {kFirst, kNothing}},
                   Task{Kind::kGrant, {kBoth, kNothing}}},
                  {Task{Kind::kUnmap, {kFirst, kNothing}}},
                  {Task{Kind::kShare, {kFirst, kNothing}}}},
      .defect = defect};
}

// One changer and one helper, which expose most mistakes.
Setting with_two(Defect defect) {
  return {
      .places = 1,
      .threads = {{Task{Kind::kUnmap, {kFirst, kSecond}}, Task{Kind::kUnmap, {kFirst, kSecond}}},
                  {Task{Kind::kShare, {kFirst, kNothing}}, Task{Kind::kShare, {kBoth, kNothing}}}},
      .defect = defect};
}

void expect_right(const Setting& setting, std::size_t states_min) {
  const model::Result result = model::explore(setting);
  for (const auto& [violation, way] : result.violations) {
    ADD_FAILURE() << "violation " << static_cast<int>(violation) << " by this way:\n" << way;
  }
  ::testing::Test::RecordProperty("states", std::to_string(result.states));
  EXPECT_GT(result.states, states_min) << "hardly any state was explored";
}

TEST(AddressWatchModel, HoldsWithAHelper) { expect_right(with_a_helper(), 100'000); }
TEST(AddressWatchModel, HoldsWithOnePlace) { expect_right(with_one_place(), 100'000); }

TEST(AddressWatchModel, HoldsInTheSettingsOfTheMistakes) {
  expect_right(with_two(Defect::kNone), 500);
  expect_right(with_a_fork(Defect::kNone), 10'000);
  expect_right(with_grants(Defect::kNone), 10'000);
}

struct Mistake {
  Setting setting;
  Violation seen;
};

class AddressWatchMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(AddressWatchMistakes, AreDetected) {
  const model::Result result = model::explore(GetParam().setting, GetParam().seen);
  EXPECT_TRUE(result.violations.contains(GetParam().seen));
}

INSTANTIATE_TEST_SUITE_P(
    Each, AddressWatchMistakes,
    ::testing::Values(Mistake{with_two(Defect::kChangerLooksFirst), Violation::kTogether},
                      Mistake{with_two(Defect::kChangerLooksFirst), Violation::kHelperStarves},
                      Mistake{with_two(Defect::kHelperLooksFirst), Violation::kTogether},
                      Mistake{with_two(Defect::kHelperMarksBeforeItWaits), Violation::kUnannounced},
                      Mistake{with_two(Defect::kHelperMarksAfterItsClaim), Violation::kUnannounced},
                      Mistake{with_two(Defect::kChangerKeepsOneRange), Violation::kStuck},
                      Mistake{with_two(Defect::kChangerGivesWaySilently), Violation::kStuck},
                      Mistake{with_two(Defect::kHelperCountsAfterItsLook), Violation::kStuck},
                      Mistake{with_two(Defect::kChangerCountsAfterItsLook), Violation::kStuck},
                      Mistake{with_two(Defect::kSleeperDoesNotSaySo), Violation::kStuck},
                      Mistake{with_a_fork(Defect::kChangerLooksForForkFirst),
                              Violation::kForkLosesPages},
                      Mistake{with_a_fork(Defect::kForkDoesNotWait), Violation::kForkLosesPages},
                      Mistake{with_grants(Defect::kGrantStoresNoRange), Violation::kTogether}));

}  // namespace
}  // namespace uroce::shim::test
