// Each option is the same as a flag and as a key of the file.

#include "control/start/option_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

// A value of each option that isn't its default, as the flag takes it and as the file does.
struct Sample {
  std::vector<std::string> flag;
  std::string key;
};
const std::map<std::string, Sample>& samples() {
  static const std::map<std::string, Sample> all{
      {"socket", {{"/tmp/x.sock"}, "\"/tmp/x.sock\""}},
      {"socket-mode", {{"0600"}, "\"0600\""}},
      {"log-level", {{"debug"}, "\"debug\""}},
      {"seccomp", {{"off"}, "\"off\""}},
      {"pid-file", {{"/tmp/x.pid"}, "\"/tmp/x.pid\""}},
      {"metrics", {{"127.0.0.1:9999"}, "\"127.0.0.1:9999\""}},
      {"telemetry", {{}, "true"}},
      {"workers", {{"2"}, "2"}},
      {"idle", {{"poll"}, "\"poll\""}},
      {"recovery", {{"go-back-n"}, "\"go-back-n\""}},
      {"direct", {{"off"}, "\"off\""}},
      {"latency", {{"off"}, "\"off\""}},
      {"odp-resident-limit", {{"1073741824"}, "1073741824"}},
      {"odp-session-resident-limit", {{"536870912"}, "536870912"}},
      {"congestion", {{"none"}, "\"none\""}},
      {"cnp-interval", {{"70"}, "70"}},
      {"cnp-dscp", {{"26"}, "26"}},
      {"vendor-id", {{"4660"}, "4660"}},
      {"vendor-part-id", {{"7"}, "7"}},
  };
  return all;
}

class OptionTable : public testing::Test {
 protected:
  // The daemon's options with these flags and these lines of its file.
  DaemonOptions parsed(const std::vector<std::string>& flags, const std::string& lines) {
    const std::string path = folder_ / "uroce.toml";
    std::ofstream(path) << lines << "\nport = \"loopback\"\nip = \"10.0.0.1/24\"\n";
    std::vector<const char*> words = {"uroced", "--config", path.c_str()};
    for (const std::string& flag : flags) {
      words.push_back(flag.c_str());
    }
    const auto line = parse_command_line(static_cast<int>(words.size()), words.data());
    EXPECT_TRUE(line) << line.error().message;
    return line ? line->options : DaemonOptions();
  }
  DaemonOptions by_flag(const std::string& name, const std::string& lines = "") {
    std::vector<std::string> words = samples().at(name).flag;
    words.insert(words.begin(), "--" + name);
    return parsed(words, lines);
  }

 private:
  const test::TemporaryFolder folder_;
};

std::string value_of(const DaemonOption& option, const DaemonOptions& options) {
  return option.fixed == nullptr ? options.log_level : option.fixed(options);
}

TEST_F(OptionTable, FlagAndKeySetTheSame) {
  const DaemonOptions untouched = parsed({}, "");
  for (const DaemonOption& option : daemon_options()) {
    SCOPED_TRACE(option.name);
    ASSERT_TRUE(samples().contains(option.name));
    const std::string wanted = value_of(option, by_flag(option.name));
    EXPECT_NE(wanted, value_of(option, untouched));
    EXPECT_EQ(wanted,
              value_of(option, parsed({}, option.name + " = " + samples().at(option.name).key)));
  }
}

TEST_F(OptionTable, OnlyTheLogLevelIsTakenByAReload) {
  for (const DaemonOption& option : daemon_options()) {
    EXPECT_EQ(option.fixed == nullptr, option.name == "log-level") << option.name;
  }
}

TEST_F(OptionTable, AFlagWithoutAValueWinsOverTheFileToo) {
  EXPECT_TRUE(by_flag("telemetry", "telemetry = false").telemetry);
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
