#include <gtest/gtest.h>

#include <fstream>

#include "control/start/options.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

class ConfigFile : public ::testing::Test {
 protected:
  Status read(const std::string& text) {
    std::ofstream(path_) << text;
    options = {};
    return read_config_file(path_, &options);
  }
  void expect_refusal(const std::string& text, const std::string& line, const std::string& says) {
    const Status status = read(text);
    ASSERT_FALSE(status) << text;
    const std::string& message = status.error().message;
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find(line), std::string::npos) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "uroce.toml";
  DaemonOptions options;
};

TEST_F(ConfigFile, ReadsLimits) {
  const Status status = read(R"(
port = "loopback"
ip = "10.0.0.1/24"

[limits]
qps = 100

[limits.root]
qps = 200
device-memory = 4096

[limits.4711]
cqs = 5
)");
  ASSERT_TRUE(status) << status.error().message;
  const ConfiguredLimits& limits = options.limits;
  EXPECT_EQ(limits.of_everybody, (ConfiguredLimits::Some{{Limit::kQps, 100}}));
  EXPECT_EQ(limits.of_user.at(0).name, "root");
  EXPECT_EQ(limits.of_user.at(0).limits,
            (ConfiguredLimits::Some{{Limit::kQps, 200}, {Limit::kDeviceMemory, 4096}}));
  EXPECT_EQ(limits.of_user.at(4711).limits, (ConfiguredLimits::Some{{Limit::kCqs, 5}}));
  expect_refusal("limits = 3", "line 1", "limits: must be a table");
  expect_refusal("[limits]\nquarks = 3",
                 "line 2: ", "quarks: unknown limit; the known limits are sessions, pds, qps, ");
  expect_refusal("[limits]\nqps = -1", "line 2: ", "qps: must be a whole number");
  expect_refusal("[limits.root]\nqps = \"x\"", "line 2: ", "root.qps: must be a whole number");
  expect_refusal("[limits.no-such-user]\nqps = 1", "line 1", "there is no user no-such-user");
  EXPECT_EQ(read("[limits.no-such-user]\nqps = 1").error().code, kUserUnknown);
}

TEST_F(ConfigFile, ReadsCongestionControl) {
  const Status status = read(R"(
port = "loopback"
ip = "10.0.0.1/24"
congestion = "delay"
cnp-dscp = 46

[dcqcn]
rpg_ai_rate = 40
dce_tcp_g = 960
)");
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(options.congestion.mode, CongestionMode::kDelay);
  EXPECT_EQ(options.congestion.cnp_dscp, 46);
  EXPECT_EQ(options.congestion.dcqcn.rpg_ai_rate, 40U);
  EXPECT_EQ(options.congestion.dcqcn.dce_tcp_g, 960U);
  expect_refusal("dcqcn = 3", "line 1", "dcqcn: must be a table");
  expect_refusal("[dcqcn]\nrpg_ai = 3",
                 "line 2: ", "rpg_ai: unknown key; the known keys are rpg_time_reset, ");
  expect_refusal("[dcqcn]\ndce_tcp_g = 1024", "line 2: ", "dce_tcp_g: it must be from 0 to 1023");
  expect_refusal("[dcqcn]\nrpg_gd = \"x\"", "line 2: ", "rpg_gd: must be a whole number");
}

TEST_F(ConfigFile, SaysWhereAMisplacedKeyBelongs) {
  const std::string port = "[[port]]\nport = \"loopback\"\nip = \"10.0.0.1/24\"\n";
  expect_refusal(port + "metrics = \"127.0.0.1:9747\"\n",
                 "line 4: port.metrics: there is no such key",
                 "metrics is the daemon's, so it stands above the first [[port]]");
  expect_refusal(port + "socket_mode = \"0600\"\n", "line 4", "socket-mode is the daemon's");
  expect_refusal("socket_mode = \"0600\"\n" + port, "line 1", "no such key; socket-mode is one");
}

TEST_F(ConfigFile, ReadsEverything) {
  const Status status = read(R"(
socket = "/tmp/x.sock"
socket-mode = "0660"
workers = 2
idle = "poll"
recovery = "go-back-n"
direct = "off"
latency = "off"
log-level = "error"
metrics = "unix:/tmp/m"
vendor-part-id = 1
telemetry = true
eal = ["--no-huge", "-m", "64"]

[[port]]
port = "loopback"
ip = ["10.0.0.1/24", "fd00::1/64"]
mtu = 4200

[[port]]
port = "net_ring0"
ip = "10.0.1.1/24"
faults = "loss=0.01"
)");
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(options.socket, "/tmp/x.sock");
  EXPECT_EQ(options.socket_mode, 0660U);
  EXPECT_EQ(options.workers, 2U);
  EXPECT_EQ(options.idle, IdlePolicy::kPoll);
  EXPECT_EQ(options.recovery, Recovery::kGoBackN);
  EXPECT_FALSE(options.direct);
  EXPECT_FALSE(options.latency);
  EXPECT_EQ(options.metrics, "unix:/tmp/m");
  EXPECT_EQ(options.identity.vendor_part_id, 1U);
  EXPECT_EQ(options.eal_arguments.size(), 3U);
  ASSERT_EQ(options.ports.size(), 2U);
  EXPECT_EQ(options.ports[0].addresses.size(), 2U);
  EXPECT_EQ(options.ports[0].mtu, 4200U);
  EXPECT_TRUE(options.ports[1].faults.any());
}

TEST_F(ConfigFile, OnePortNeedsNoTable) {
  ASSERT_TRUE(read("port = \"loopback\"\nip = \"10.0.0.1/24\"\nmtu = 4200\ninterface = \"u0\"\n"));
  ASSERT_EQ(options.ports.size(), 1U);
  EXPECT_EQ(options.ports[0].spec, "loopback");
  EXPECT_EQ(options.ports[0].mtu, 4200U);
  EXPECT_EQ(options.ports[0].interface, "u0");
}

TEST_F(ConfigFile, FlagsWinOverTheFile) {
  std::ofstream(path_)
      << "workers = 2\nidle = \"poll\"\nport = \"loopback\"\nip = \"10.0.0.1/24\"\n";
  const char* words[] = {"uroced", "--workers", "3", "--config", path_.c_str()};
  const auto line = parse_command_line(5, words);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->options.workers, 3U);
  EXPECT_EQ(line->options.idle, IdlePolicy::kPoll);
  EXPECT_EQ(line->options.ports[0].spec, "loopback");
}

TEST_F(ConfigFile, MayBeEmptyButIsAFile) {
  EXPECT_TRUE(read(""));
  const Status folder = read_config_file(folder_ / "", &options);
  ASSERT_FALSE(folder);
  EXPECT_TRUE(folder.error().message.ends_with(": Is a directory")) << folder.error().message;
}

TEST_F(ConfigFile, RefusalsNameFileLineAndKey) {
  expect_refusal("workers = 2\nspede = 3\n", "line 2", "spede");
  expect_refusal("\n\nworkers = \"two\"\n", "line 3", "workers: must be a whole number");
  expect_refusal("idle = \"lazy\"\n", "line 1", "idle");
  expect_refusal("recovery = \"all\"\n", "line 1", "recovery");
  expect_refusal("direct = \"never\"\n", "line 1", "direct is on or off");
  expect_refusal("latency = \"1\"\n", "line 1", "latency is on or off");
  expect_refusal("[[port]]\nport = \"loopback\"\nmtu = 1\n", "line 3", "port.mtu");
  expect_refusal("[[port]]\nport = \"loopback\"\nspede = 3\n", "line 3", "port.spede");
  expect_refusal("[[port]]\nip = [\"10.0.0.1/24\", 7]\n", "line 2", "port.ip: must be a string");
  expect_refusal("[[port]]\nip = \"10.0.0.1/24\"\n", "line 1", "port.port");
  for (const char* line : {"ip = \"10.0.0.1/24\"", "route = \"0.0.0.0/0=10.0.0.2\"", "mtu = 4200",
                           "faults = \"loss=0.01\""}) {
    const std::string key(line, std::string_view(line).find(' '));
    const std::string says = key + ": stands at the top, but there is no port beside it";
    expect_refusal(std::string("workers = 1\n") + line + "\n", "line 2", says);
    expect_refusal(std::string(line) + "\n[[port]]\nport = \"loopback\"\n", "line 1", says);
  }
  expect_refusal("workers = \n", "line 1", "");
  expect_refusal("port = 7\n", "line 1", "port");
  expect_refusal("port = [7]\n", "line 1", "port");
}

}  // namespace
}  // namespace uroce::control
