// Each option is the same as a flag and as a key of the file.

#include "control/start/option_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

// A value of each option that is no build's default. (A flag of telemetry needs none.)
const std::map<std::string, std::string>& samples() {
  static const std::map<std::string, std::string> all{
      {"ip", "10.9.8.7/16"},
      {"route", "10.7.0.0/16=10.0.0.2"},
      {"mtu", "4200"},
      {"interface", "u0"},
      {"faults", "loss=0.5,seed=7"},
      {"socket", "/tmp/x.sock"},
      {"socket-mode", "0600"},
      {"log-level", "debug"},
      {"seccomp", "log"},
      {"pid-file", "/tmp/x.pid"},
      {"metrics", "127.0.0.1:9999"},
      {"telemetry", "true"},
      {"workers", "2"},
      {"idle", "poll"},
      {"recovery", "go-back-n"},
      {"direct", "off"},
      {"latency", "off"},
      {"odp-resident-limit", "1073741824"},
      {"odp-session-resident-limit", "536870912"},
      {"congestion", "none"},
      {"cnp-interval", "70"},
      {"cnp-dscp", "26"},
      {"vendor-id", "4660"},
      {"vendor-part-id", "7"},
  };
  return all;
}

// Its line in the file.
template <typename Target>
std::string line_of(const Option<Target>& option) {
  const std::string& value = samples().at(option.name);
  const bool quoted = std::holds_alternative<typename Option<Target>::SetText>(option.set);
  return option.name + " = " + (quoted ? '"' + value + '"' : value) + "\n";
}

class OptionTable : public testing::Test {
 protected:
  Result<CommandLine> parse(const std::vector<std::string>& flags, const std::string& lines) {
    const std::string path = folder_ / "uroce.toml";
    std::ofstream(path) << lines;
    std::vector<const char*> words = {"uroced", "--config", path.c_str()};
    for (const std::string& flag : flags) {
      words.push_back(flag.c_str());
    }
    return parse_command_line(static_cast<int>(words.size()), words.data());
  }
  DaemonOptions parsed(const std::vector<std::string>& flags, const std::string& lines) {
    const auto line = parse(flags, lines);
    EXPECT_TRUE(line) << line.error().message;
    return line ? line->options : DaemonOptions();
  }

 private:
  const test::TemporaryFolder folder_;
};

constexpr const char* kPort = "port = \"loopback\"\nip = \"10.0.0.1/24\"\n";

TEST_F(OptionTable, FlagAndKeySetTheSame) {
  for (const DaemonOption& option : daemon_options()) {
    SCOPED_TRACE(option.name);
    ASSERT_TRUE(samples().contains(option.name));
    const DaemonOptions by_flag =
        parsed({"--" + option.name + "=" + samples().at(option.name)}, kPort);
    EXPECT_NE(option.text(by_flag), option.text(parsed({}, kPort)));
    EXPECT_EQ(option.text(by_flag), option.text(parsed({}, line_of(option) + kPort)));
  }
}

// What a port has, as one text.
std::string port_text(const DaemonOptions& options) {
  const DaemonPort& port = options.ports.at(0);
  std::string text =
      std::to_string(port.mtu) + " " + port.interface + " " + (port.faults.any() ? "faults" : "");
  for (const IpPrefix& prefix : port.addresses) {
    text += " " + to_string(prefix.address);
  }
  for (const GatewayRoute& route : port.routes) {
    text += " " + to_string(route.destination) + "=" + to_string(route.gateway);
  }
  return text;
}

TEST_F(OptionTable, FlagAndKeyOfAPortSetTheSame) {
  const std::string port = "port = \"loopback\"\n";
  for (const PortOption& option : port_options()) {
    SCOPED_TRACE(option.name);
    ASSERT_TRUE(samples().contains(option.name));
    // Every port needs an address.
    const bool address = option.name == "ip";
    std::vector<std::string> flags = {"--port=loopback",
                                      "--" + option.name + "=" + samples().at(option.name)};
    if (!address) {
      flags.emplace_back("--ip=10.0.0.1/24");
    }
    const std::string by_flag = port_text(parsed(flags, ""));
    EXPECT_NE(by_flag, port_text(parsed({}, kPort)));
    EXPECT_EQ(by_flag, port_text(parsed({}, line_of(option) + (address ? port : kPort))));
  }
}

TEST_F(OptionTable, OnlyTheLogLevelIsTakenByAReload) {
  for (const DaemonOption& option : daemon_options()) {
    EXPECT_EQ(option.reloads, option.name == "log-level") << option.name;
  }
}

TEST_F(OptionTable, AFlagThatNeedsNoValueWinsOverTheFileToo) {
  const std::string on = std::string("telemetry = true\n") + kPort;
  const std::string off = std::string("telemetry = false\n") + kPort;
  EXPECT_TRUE(parsed({"--telemetry"}, off).telemetry);
  EXPECT_FALSE(parsed({"--telemetry=false"}, on).telemetry);
  const auto wrong = parse({"--telemetry=maybe"}, on);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("--telemetry"), std::string::npos) << wrong.error().message;
}

TEST_F(OptionTable, NoNameIsThereTwice) {
  std::vector<std::string> names{"port"};
  for (const PortOption& option : port_options()) {
    names.push_back(option.name);
  }
  for (const DaemonOption& option : daemon_options()) {
    names.push_back(option.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace uroce::control
