#include "verbs_shim/objects/registry.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::shim {
namespace {

TEST(Registry, FindsLiveObjectsOnly) {
  Registry registry;
  std::vector<int> objects(100);
  std::vector<std::uint64_t> cookies;
  for (int& object : objects) {
    cookies.push_back(registry.add(Registry::Kind::kQp, &object));
    EXPECT_NE(cookies.back(), 0U);
  }
  EXPECT_TRUE(
      registry.with<int>(cookies[42], [&](int& found) { EXPECT_EQ(&found, &objects[42]); }));
  registry.remove(cookies[42]);
  EXPECT_FALSE(registry.with<int>(cookies[42], [](int&) {}));
  const std::uint64_t reused = registry.add(Registry::Kind::kQp, &objects[0]);
  EXPECT_NE(reused, cookies[42]);
  EXPECT_FALSE(registry.with<int>(cookies[42], [](int&) {}));
  EXPECT_TRUE(registry.with<int>(reused, [](int&) {}));
}

TEST(Registry, RefusesUnknownCookies) {
  Registry registry;
  EXPECT_FALSE(registry.with<int>(0, [](int&) {}));
  EXPECT_FALSE(registry.with<int>(~0ULL, [](int&) {}));
  registry.remove(12'345);
}

}  // namespace
}  // namespace uroce::shim
