// The requests of every RC capture of a real peer (Linux's rxe), answered by our responder,
// compared with the peer's answers.

#include <gtest/gtest.h>

#include <map>

#include "apps/replay/derive.h"
#include "apps/replay/describe.h"
#include "apps/replay/replay.h"
#include "tests/replay/captures.h"

namespace uroce::test {
namespace {

using replay::Circumstances;
using replay::Flow;

// What INDEX.md states about a capture beyond its packets. Requests lost on the way are in the file
// if it was taken at the requester; those that led to a sequence NAK are found by derive().
Circumstances circumstances_of(const std::string& capture) {
  static const std::map<std::string, Circumstances> kKnown = {
      {"lost_last", {.lost = {8}}},
      {"lost_read_req", {.lost = {1}}},
      {"nak_range", {.region_cut = 1, .refused_regions = true}},
      {"nak_read_perm",
       {.region_access = kAccessLocalWrite | kAccessRemoteWrite, .refused_regions = true}},
      {"nak_recv_short", {.receive_length = 1}},
      {"retry_exceeded", {.lost = {1, 2, 3, 4, 5, 6}}},
  };
  const auto found = kKnown.find(capture);
  Circumstances circumstances = found == kKnown.end() ? Circumstances{} : found->second;
  // Their programs wrote to memory between two requests.
  circumstances.memory_is_stable = capture != "dup_req" && capture != "t_rping";
  return circumstances;
}

// The recorded peer's answers, adapted to the specification. All legitimate differences:
//   * after an RNR NAK Linux answers the rest of the message with a sequence NAK; the specification
//     requires silence until the NAKed packet is repeated;
//   * a receive that is too short: Linux sends NAK 3 (remote operation), the specification NAK 1;
//   * a SEND whose invalidation fails: Linux doesn't count it as a message; we do, since it was
//     delivered;
//   * Linux sends no congestion notifications; we also answer a packet that is marked CE with one
//     (our_answers() omits it).
// Never compared: IP identification, UDP source port, time. Acknowledgements can't coalesce here,
// since each request is answered before the next one is received.
std::vector<std::string> recorded_answers(const Flow& flow, const std::string& capture) {
  std::vector<std::string> answers;
  bool after_rnr_nak = false;
  for (const Flow::Record& record : flow.records) {
    const Packet& packet = *record.packet;
    if (record.request || (after_rnr_nak && replay::is_nak(packet, Nak::kPsnSequence))) {
      continue;
    }
    after_rnr_nak = replay::is_rnr_nak(packet);
    std::string answer = replay::describe(packet);
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

std::vector<std::string> our_answers(const Flow& flow, const replay::Outcome& outcome) {
  std::vector<std::string> answers;
  for (const Flow::Record& record : flow.records) {
    for (const replay::Bytes& bytes : outcome.frames[record.frame].fate.answers) {
      const replay::ParsedFrame frame(bytes);
      if (frame.packet().opcode != Opcode::kCnp) {
        answers.push_back(replay::describe(frame.packet()));
      }
    }
  }
  return answers;
}

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, GivesTheRecordedAnswers) {
  const auto captured = replay::read_capture(*captures_folder() / (GetParam() + ".pcap"));
  ASSERT_TRUE(captured) << captured.error().message;
  const auto frames = replay::parse_all(*captured);
  const auto flows = replay::flows_of(frames);
  const auto plan = replay::derive(frames, flows, circumstances_of(GetParam()));
  EXPECT_TRUE(plan.notes.empty());
  const auto outcome = replay::replay(*captured, frames, plan);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->notes.empty());
  for (const Flow& flow : flows) {
    std::vector<std::string> ours = our_answers(flow, *outcome);
    if (GetParam() == "lost_ack") {
      ours.erase(ours.begin());  // the lost answer; the file was taken at the requester
    }
    EXPECT_EQ(ours, recorded_answers(flow, GetParam())) << flow.name();
  }
}

// Missing captures must not pass as an empty set.
TEST(ReplayCaptures, AreThere) { EXPECT_GE(capture_names().size(), 50U); }

INSTANTIATE_TEST_SUITE_P(Captures, Replay, testing::ValuesIn(capture_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace uroce::test
