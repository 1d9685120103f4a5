// The requests of every RC capture of a real peer (Linux's rxe), answered by our responder,
// compared with what the peer answered.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/conformance/names.h"
#include "tests/replay/flow.h"
#include "tests/replay/replayer.h"
#include "tests/wire/capture_file.h"

namespace uroce::test {
namespace {

// What INDEX.md tells of a capture beyond its packets. Requests that were lost on the way are in
// the file where it was taken at the requester.
const std::map<std::string, Circumstances>& known_circumstances() {
  static const std::map<std::string, Circumstances> kKnown = {
      // The target of the atomic was cleared by its program after the WRITE.
      {"dup_req", {.memory_changes = true}},
      {"lost_last", {.lost = {8}}},
      {"lost_read_req", {.lost = {1}}},
      {"nak_badrkey", {.regions = false}},
      {"nak_range", {.region_cut = 1}},
      {"nak_read_perm", {.region_access = kAccessLocalWrite | kAccessRemoteWrite}},
      {"nak_recv_short", {.receive_length = 1}},
      {"retry_exceeded", {.lost = {1, 2, 3, 4, 5, 6}}},
      {"seq_nak_send", {.lost = {3}}},
      {"seq_nak_write", {.lost = {4}}},
      {"t_rping", {.memory_changes = true}},
  };
  return kKnown;
}

bool is_nak(const Packet& packet, std::uint8_t syndrome) {
  return packet.opcode == Opcode::kRcAcknowledge && packet.aeth().syndrome == syndrome;
}

bool is_rnr_nak(const Packet& packet) {
  return packet.opcode == Opcode::kRcAcknowledge &&
         (packet.aeth().syndrome & 0xE0U) == kSyndromeRnr;
}

// What the recorded peer answered, but as the specification has it. All that differs legitimately:
//   * after an RNR NAK Linux answers the rest of the message with a sequence NAK; the specification
//     has nothing but silence until the NAKed packet comes again;
//   * a receive that is too short: Linux NAKs 3 (remote operation), the specification 1;
//   * a SEND whose invalidation fails: Linux doesn't count it as a message, we do, since it was
//     delivered.
// Never compared: IP identification, UDP source port, time. Acknowledgements can't coalesce here,
// since each request is answered before the next one comes.
std::vector<std::string> recorded_answers(const Flow& flow, const std::string& capture) {
  std::vector<std::string> answers;
  bool after_rnr_nak = false;
  for (const Record& record : flow.records) {
    const Packet& packet = record.packet();
    if (record.request || (after_rnr_nak && is_nak(packet, kSyndromeNak))) {
      continue;
    }
    after_rnr_nak = is_rnr_nak(packet);
    std::string answer = describe(packet);
    const auto replace = [&](std::string_view from, std::string_view to) {
      const std::size_t at = answer.find(from);
      ASSERT_NE(at, std::string::npos) << answer;
      answer.replace(at, from.size(), to);
    };
    if (capture == "nak_recv_short") {
      replace("NAK:3", "NAK:1");
    } else if (capture == "sendinv") {
      replace("msn=0", "msn=1");
    }
    answers.push_back(answer);
  }
  return answers;
}

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  const auto folder = captures_folder();
  if (folder) {
    for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
      if (entry.path().extension() == ".pcap") {
        names.push_back(entry.path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, GivesTheRecordedAnswers) {
  const auto frames = read_capture(*captures_folder() / (GetParam() + ".pcap"));
  ASSERT_TRUE(frames);
  const auto& known = known_circumstances();
  const auto found = known.find(GetParam());
  for (const Flow& flow : flows_of(*frames)) {
    Replayer replayer(flow, found == known.end() ? Circumstances{} : found->second);
    std::vector<std::string> ours;
    for (const SentPacket& sent : replayer.play()) {
      ours.push_back(describe(sent.packet()));
    }
    if (GetParam() == "lost_ack") {
      ours.erase(ours.begin());  // the one that was lost; the file was taken at the requester
    }
    EXPECT_EQ(ours, recorded_answers(flow, GetParam())) << flow.name();
  }
}

// So that missing captures don't pass as none.
TEST(ReplayCaptures, AreThere) { EXPECT_GE(capture_names().size(), 50U); }

INSTANTIATE_TEST_SUITE_P(Captures, Replay, testing::ValuesIn(capture_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace uroce::test
