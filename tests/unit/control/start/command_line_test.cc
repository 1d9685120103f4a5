#include <gtest/gtest.h>

#include "control/start/options.h"

namespace uroce::control {
namespace {

Result<CommandLine> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "uroced");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

void expect_refusal(const std::vector<const char*>& words, const std::string& says) {
  const auto line = parse(words);
  ASSERT_FALSE(line) << says;
  EXPECT_NE(line.error().message.find(says), std::string::npos) << line.error().message;
  EXPECT_EQ(line.error().message.find('\n'), std::string::npos) << line.error().message;
}

TEST(CommandLine, TheShortestOne) {
  const auto line = parse({"--port", "loopback", "--ip", "10.0.0.1/24"});
  ASSERT_TRUE(line);
  ASSERT_EQ(line->options.ports.size(), 1U);
  EXPECT_EQ(line->options.ports[0].spec, "loopback");
  EXPECT_EQ(line->options.ports[0].mtu, 1500U);
  EXPECT_EQ(line->options.workers, 1U);
  EXPECT_EQ(line->options.idle, IdlePolicy::kAdaptive);
  EXPECT_EQ(line->options.socket_mode, 0666U);
  EXPECT_FALSE(line->options.socket.empty());
}

TEST(CommandLine, IsOnlyChecked) {
  const auto line = parse({"--port", "loopback", "--ip", "10.0.0.1/24", "--check"});
  ASSERT_TRUE(line);
  EXPECT_FALSE(line->text.empty());
  expect_refusal({"--port", "loopback", "--ip", "10.0.0.1/24", "--workers", "x", "--check"},
                 "--workers");
}

TEST(CommandLine, FlagsBelongToThePortBeforeThem) {
  const auto line = parse({"--port", "loopback", "--ip", "10.0.0.1/24", "--mtu", "4200", "--port",
                           "net_ring0", "--ip", "10.0.1.1/24", "--ip", "fd00::1/64", "--faults",
                           "loss=0.5", "--workers", "2"});
  ASSERT_TRUE(line) << line.error().message;
  ASSERT_EQ(line->options.ports.size(), 2U);
  EXPECT_EQ(line->options.ports[0].mtu, 4200U);
  EXPECT_EQ(line->options.ports[0].addresses.size(), 1U);
  EXPECT_FALSE(line->options.ports[0].faults.any());
  EXPECT_EQ(line->options.ports[1].mtu, 1500U);
  EXPECT_EQ(line->options.ports[1].addresses.size(), 2U);
  EXPECT_EQ(line->options.ports[1].faults.loss, 0.5);
  EXPECT_EQ(line->options.workers, 2U);
}

TEST(CommandLine, WithOnePortTheOrderDoesNotMatter) {
  const auto line = parse(
      {"--mtu", "4200", "--ip", "10.0.0.1/24@5", "--interface", "uroce0", "--port", "loopback"});
  ASSERT_TRUE(line);
  ASSERT_EQ(line->options.ports.size(), 1U);
  EXPECT_EQ(line->options.ports[0].addresses[0].vlan, 5U);
  EXPECT_EQ(line->options.ports[0].interface, "uroce0");
  EXPECT_EQ(line->options.ports[0].mtu, 4200U);
}

TEST(CommandLine, WhatFollowsTheDashesGoesToTheEal) {
  const auto line =
      parse({"--port", "loopback", "--ip", "10.0.0.1/24", "--", "--no-huge", "-m", "64"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->options.eal_arguments, (std::vector<std::string>{"--no-huge", "-m", "64"}));
}

TEST(CommandLine, CongestionNotificationsCanBeChosen) {
  const auto line = parse({"--port", "loopback", "--ip", "10.0.0.1/24", "--cnp-interval", "4",
                           "--cnp-dscp", "46", "--congestion", "delay"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->options.congestion.cnp_interval, 4 * kNanosecondsPerMicrosecond);
  EXPECT_EQ(line->options.congestion.cnp_dscp, 46);
  EXPECT_EQ(line->options.congestion.mode, CongestionMode::kDelay);
}

// The kernel knows the subnets of a udp port, and a loopback port resolves every address.
TEST(CommandLine, AddressesNeedAPrefixLengthOnPortsThatResolve) {
  for (const char* const port : {"net_af_packet0,iface=wire", "0000:3b:00.0", "shm,path=/x"}) {
    expect_refusal({"--port", port, "--ip", "10.0.0.1"},
                   std::string("port ") + port + ": say 10.0.0.1/24 rather than 10.0.0.1,");
    expect_refusal({"--ip", "10.0.0.1/24", "--ip", "fd00::1@5", "--port", port}, "say fd00::1/64");
    EXPECT_TRUE(parse({"--port", port, "--ip", "10.0.0.1/32"}));
  }
  EXPECT_TRUE(parse({"--port", "loopback", "--ip", "10.0.0.1"}));
  EXPECT_TRUE(parse({"--port", "udp", "--ip", "10.0.0.1"}));
}

TEST(CommandLine, HelpAndVersionAreTexts) {
  EXPECT_NE(parse({"--help"})->text.find("--port"), std::string::npos);
  EXPECT_NE(parse({"--version"})->text.find("uroced"), std::string::npos);
}

TEST(CommandLine, RefusalsNameTheFlagAndSayWhatToDo) {
  expect_refusal({}, "--port");
  expect_refusal({"--frobnicate"}, "--frobnicate");
  expect_refusal({"--port"}, "--port");
  expect_refusal({"--port", "loopback"}, "--ip");
  expect_refusal({"--ip", "10.0.0.1/24"}, "--port");
  expect_refusal({"--port", "loopback", "--ip", "10.0.0.300/24"}, "--ip: '10.0.0.300/24'");
  expect_refusal({"--port", "loopback", "--ip", "10.0.0.1/24", "--ip", "10.0.0.1/24"}, "twice");
  expect_refusal(
      {"--port", "loopback", "--ip", "10.0.0.1/24", "--port", "net_null0", "--ip", "10.0.0.1/16"},
      "10.0.0.1 of port loopback too");
  expect_refusal({"--port", "udp", "--ip", "10.0.0.1/24@5"}, "leave out @VLAN");
  expect_refusal({"--port", "udp"}, "give it addresses of this machine");
  expect_refusal({"--port", "udp,iface=eth0", "--ip", "10.0.0.1/24"}, "with ,iface=NAME");
  expect_refusal({"--port", "loopbak", "--ip", "10.0.0.1/24"}, "port loopbak: neither loopback");
  expect_refusal({"--port", "shm,/x", "--ip", "10.0.0.1/24"}, "say shm,path=FILE");
  expect_refusal({"--port", "udp,eth0"}, "say udp, and behind it ,iface=NAME");
  expect_refusal({"--port", "udp", "--ip", "10.0.0.1/24", "--route", "0.0.0.0/0=10.0.0.2"},
                 "--route");
  const std::vector<const char*> good = {"--port", "loopback", "--ip", "10.0.0.1/24"};
  const auto with = [&](const char* flag, const char* value) {
    auto words = good;
    words.insert(words.end(), {flag, value});
    return words;
  };
  expect_refusal(with("--mtu", "12"), "--mtu");
  expect_refusal(with("--mtu", "many"), "--mtu: 'many'");
  expect_refusal(with("--interface", "a/b"), "--interface: 'a/b'");
  expect_refusal(with("--interface", "sixteen_letters_"), "--interface");
  expect_refusal(with("--faults", "loss=2"), "--faults");
  expect_refusal(with("--workers", "0"), "--workers");
  expect_refusal(with("--workers", "99"), "--workers");
  expect_refusal(with("--idle", "lazy"), "--idle");
  expect_refusal(with("--recovery", "all"), "--recovery");
  expect_refusal(with("--socket-mode", "rw"), "--socket-mode");
  expect_refusal(with("--congestion", "cubic"), "--congestion: congestion control is dcqcn");
  expect_refusal(with("--cnp-interval", "1000001"), "--cnp-interval");
  expect_refusal(with("--cnp-dscp", "64"), "--cnp-dscp");
  expect_refusal(with("--log-level", "loud"), "--log-level");
  expect_refusal(with("--metrics", "9100"), "--metrics: metrics are served at ADDRESS:PORT");
  expect_refusal(with("--ready-fd", "-2"), "--ready-fd");
  expect_refusal(with("--vendor-id", "5555"), "--vendor-id");  // 0x15b3
  expect_refusal(with("--config", "/nonexistent/uroce.toml"), "/nonexistent/uroce.toml");
}

}  // namespace
}  // namespace uroce::control
