#include "control/metrics/metrics_address.h"

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

TEST(MetricsAddress, TakesHostsPortsAndPaths) {
  const auto plain = parse_metrics_address("127.0.0.1:9100");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "127.0.0.1");
  EXPECT_EQ(plain->port, "9100");
  EXPECT_EQ(parse_metrics_address("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_metrics_address(":9100")->host, "");
  EXPECT_EQ(parse_metrics_address("unix:/run/x")->path, "/run/x");
}

TEST(MetricsAddress, RefusesTheRestWithASentence) {
  for (const char* const text :
       {"", "unix:", "9100", "host:", "host:0", "host:65536", "host:x", "::1:80", "host:80x"}) {
    const auto parsed = parse_metrics_address(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_FALSE(parsed.error().message.empty());
  }
}

TEST(MetricsAddress, SaysWhyItCantListen) {
  const auto missing = listen_for_metrics({.host = {}, .port = {}, .path = "/nonexistent/x"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace uroce::control
