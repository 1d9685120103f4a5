// tshark, an independent reader, finds in our messages what we meant. It doesn't know SIDR, MRA and
// LAP, and of a REQ's path it reads flow label and packet rate one byte too early (4.0): those are
// left out, the captures stand for them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "control/cm/ip_service.h"
#include "control/cm/manager.h"
#include "tests/cm_replay/recording.h"
#include "tests/wire/capture_file.h"

namespace uroce::test {
namespace {

using namespace control::cm;
using Fields = std::map<std::string, std::uint64_t>;

constexpr std::uint64_t kTransaction = 0x1234'5678'9ABC'DEF0;

// The values that tshark reads in the only packet of a capture; its words for flags are numbers.
class Tshark : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("uroce-tshark-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Expects that tshark reads these values, and nothing malformed, in this message.
  void expect_fields(const Message& message, const Fields& fields) {
    const auto file = folder_ / "message.pcap";
    const std::vector<std::byte> frames[] = {
        frame_of(*parse_ip("10.0.0.1"), *parse_ip("10.0.0.2"), build_mad(kTransaction, message))};
    ASSERT_TRUE(write_capture(file, frames));
    std::string command =
        "tshark -n -r " + file.string() +
        " -T fields -E occurrence=f -e _ws.malformed -e infiniband.mad.attributeid"
        " -e infiniband.mad.transactionid";
    for (const auto& [name, value] : fields) {
      command += " -e infiniband.cm." + name;
    }
    const std::vector<std::string> found = run(command + " 2>" + (folder_ / "errors").string());
    ASSERT_EQ(found.size(), fields.size() + 3) << "is tshark installed? " << command;
    EXPECT_EQ(found[0], "");
    EXPECT_EQ(number(found[2]), kTransaction);
    std::size_t i = 3;
    for (const auto& [name, value] : fields) {
      EXPECT_EQ(number(found[i]), value) << name << " of a " << name_of(message);
      ++i;
    }
  }

 private:
  static std::uint64_t number(const std::string& text) {
    return text == "True" ? 1 : text == "False" ? 0 : std::strtoull(text.c_str(), nullptr, 0);
  }
  static std::vector<std::string> run(const std::string& command) {
    std::string output;
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF && c != '\n'; c = std::fgetc(pipe)) {
      output += static_cast<char>(c);
    }
    ::pclose(pipe);
    std::vector<std::string> fields;
    std::istringstream line(output);
    for (std::string field; std::getline(line, field, '\t');) {
      fields.push_back(field);
    }
    return fields;
  }

  std::filesystem::path folder_;
};

TEST_F(Tshark, ReadsARequest) {
  Req req;
  req.local_id = 0x0102'0304;
  req.service_id = service_id(PortSpace::kTcp, 7174);
  req.ca_guid = 0x0200'00FF'FE00'0001;
  req.qkey = 0x1111'1111;
  req.qpn = 0xABCDEF;
  req.responder_resources = 3;
  req.initiator_depth = 4;
  req.remote_response_timeout = 20;
  req.transport = control::cm::Transport::kUc;
  req.flow_control = true;
  req.starting_psn = 0x123456;
  req.local_response_timeout = 21;
  req.retry_count = 5;
  req.path_mtu = 5;
  req.rnr_retry_count = 6;
  req.max_cm_retries = 15;
  req.srq = true;
  req.primary.local_gid = *parse_ip("10.0.0.1");
  req.primary.remote_gid = *parse_ip("10.0.0.2");
  req.primary.traffic_class = 0x60;
  req.primary.hop_limit = 63;
  req.primary.ack_timeout = 19;
  req.private_data = with_ip_header({.ipv6 = false,
                                     .source_port = 0xC63C,
                                     .source = *parse_ip("10.0.0.1"),
                                     .destination = *parse_ip("10.0.0.2")},
                                    {});
  expect_fields(req, {{"req", 0x0102'0304},
                      {"req.serviceid.dport", 7174},
                      {"req.serviceid.protocol", 6},
                      {"req.localcaguid", req.ca_guid},
                      {"req.localqkey", 0x1111'1111},
                      {"req.localqpn", 0xABCDEF},
                      {"req.responderres", 3},
                      {"req.initdepth", 4},
                      {"req.remoteresptout", 20},
                      {"req.transpsvctype", 1},
                      {"req.e2eflowctrl", 1},
                      {"req.startpsn", 0x123456},
                      {"req.localresptout", 21},
                      {"req.retrcount", 5},
                      {"req.pkey", 0xFFFF},
                      {"req.pppmtu", 5},
                      {"req.rnrretrcount", 6},
                      {"req.maxcmretr", 15},
                      {"req.srq", 1},
                      {"req.prim_locallid", 0xFFFF},
                      {"req.prim_tfcclass", 0x60},
                      {"req.prim_hoplim", 63},
                      {"req.prim_localacktout", 19},
                      {"req.ip_cm.ipv", 4},
                      {"req.ip_cm.sport", 0xC63C}});
}

TEST_F(Tshark, ReadsAReply) {
  expect_fields(Rep{.local_id = 1,
                    .remote_id = 2,
                    .qkey = 3,
                    .qpn = 0xABCDEF,
                    .eecn = 0x654321,
                    .starting_psn = 0x123456,
                    .responder_resources = 5,
                    .initiator_depth = 6,
                    .target_ack_delay = 15,
                    .failover_accepted = 2,
                    .flow_control = true,
                    .rnr_retry_count = 7,
                    .srq = true,
                    .ca_guid = 0x0200'00FF'FE00'0001},
                {{"rep", 1},
                 {"rep.remotecommid", 2},
                 {"rep.localqkey", 3},
                 {"rep.localqpn", 0xABCDEF},
                 {"rep.localeecn", 0x654321},
                 {"rep.startpsn", 0x123456},
                 {"rep.respres", 5},
                 {"rep.initdepth", 6},
                 {"rep.tgtackdelay", 15},
                 {"rep.failoveracc", 2},
                 {"rep.e2eflowctrl", 1},
                 {"rep.rnrretrcount", 7},
                 {"rep.srq", 1},
                 {"rep.localcaguid", 0x0200'00FF'FE00'0001}});
}

TEST_F(Tshark, ReadsTheRest) {
  expect_fields(Rtu{.local_id = 1, .remote_id = 2},
                {{"rtu.localcommid", 1}, {"rtu.remotecommid", 2}});
  expect_fields(Rej{.local_id = 1,
                    .remote_id = 2,
                    .message = RejMessage::kRep,
                    .reason = RejectReason::kConsumerDefined,
                    .info = PrivateData(8, std::byte{1})},
                {{"rej.localcommid", 1},
                 {"rej.remotecommid", 2},
                 {"rej.msgrej", 1},
                 {"rej.rejinfolen", 8},
                 {"rej.reason", 28}});
  expect_fields(
      Dreq{.local_id = 1, .remote_id = 2, .remote_qpn = 0xABCDEF},
      {{"dreq.localcommid", 1}, {"dreq.remotecommid", 2}, {"req.remoteqpneecn", 0xABCDEF}});
  expect_fields(Drep{.local_id = 1, .remote_id = 2},
                {{"drsp.localcommid", 1}, {"drsp.remotecommid", 2}});
}

}  // namespace
}  // namespace uroce::test
