// The findings of `uroce check` in captures of a real peer, and in captures made wrong.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/check/report.h"
#include "tests/check/story.h"
#include "tests/replay/captures.h"

namespace uroce::test {
namespace {

class OfARealPeer : public testing::TestWithParam<std::string> {};

TEST_P(OfARealPeer, NothingIsWrong) {
  check::Verdict verdict;
  ASSERT_TRUE(check::analyse(*captures_folder() / (GetParam() + ".pcap"), {}, verdict));
  EXPECT_EQ(found(verdict), GetParam() == "corrupt_icrc" ? "bad_icrc 1" : "");
  EXPECT_GT(verdict.roce, 0U);
  EXPECT_EQ(verdict.unattributed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Captures, OfARealPeer, testing::ValuesIn(capture_names()),
                         [](const auto& instance) { return instance.param; });

struct Wrong {
  const char* fault;  // the only finding, found once
  std::function<void(Story&)> tell;
};

const Wrong kWrong[] = {
    {"bad_icrc",
     [](Story& story) {
       story.write(0);
       story.last().back() ^= std::byte{1};
     }},
    {"malformed",
     [](Story& story) {
       story.write(0);
       story.last()[42 + 1] |= std::byte{0x01};  // transport version 1
     }},
    {"gap_not_repaired",  // lost after the point of capture
     [](Story& story) {
       story.write_long(0, 4);
       story.nak(1);
       story.wait(kLong);
       story.write(4);
     }},
    {"gap_not_repaired",  // lost before it
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.write(2);
       story.nak(1);
       story.wait(kLong);
       story.write(3);
     }},
    {"resend_without_cause",
     [](Story& story) {
       story.write_long(0, 6);
       story.nak(2);
       story.ask(kMiddle, 2, kMtu);
       story.write(6);
       story.wait(kLong);
       story.ask(kMiddle, 4, kMtu);
       story.ack(6);
     }},
    {"rnr_too_early",
     [](Story& story) {
       story.write(0);
       story.rnr_nak(0, 24);  // 40.96 ms
       story.wait(kNanosecondsPerMillisecond);
       story.write(0);
       story.ack(0);
     }},
    {"message_broken",
     [](Story& story) {
       story.ask(Opcode::kRcSendFirst, 0, kMtu);
       story.ask(kMiddle, 1, kMtu);
       story.ask(Opcode::kRcWriteLast, 2, 4);
       story.ack(2);
     }},
    {"not_full",
     [](Story& story) {
       story.write_long(0, 3);
       story.ask(Opcode::kRcWriteFirst, 3, kMtu);
       story.ask(kMiddle, 4, kMtu / 4);
       story.ask(Opcode::kRcWriteLast, 5, 4);
       story.ack(5);
     }},
    {"read_again_wrong_range",  // the address isn't advanced
     [](Story& story) {
       story.read(0, 4 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 0);
       story.response(Opcode::kRcReadResponseLast, 3);
       story.read(1, 2 * kMtu, kAddress);
       story.responses(1, 2);
     }},
    {"read_again_wrong_range",  // longer than the original
     [](Story& story) {
       story.read(0, 4 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 0);
       story.response(Opcode::kRcReadResponseLast, 3);
       story.read(1, 4 * kMtu, kAddress + kMtu);
       story.responses(1, 3);
     }},
    {"read_again_too_early",
     [](Story& story) {
       story.read(0, 4 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 0);
       story.response(Opcode::kRcReadResponseMiddle, 1);
       story.response(Opcode::kRcReadResponseLast, 3);
       story.read(0, 4 * kMtu);
       story.responses(0, 4);
     }},
    {"nak_missing",  // only the requester's timer recovers it
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.write(2);
       story.wait(kLong);
       story.write(1);
       story.write(2);
       story.ack(2);
     }},
    {"nak_without_gap",
     [](Story& story) {
       story.write_long(0, 3);
       story.nak(2);
       story.ask(Opcode::kRcWriteLast, 2, kMtu);
       story.ack(2);
     }},
    {"second_nak",
     [](Story& story) {
       story.write_long(0, 5);
       story.nak(1);
       story.nak(1);
       story.ask(kMiddle, 1, kMtu);
       story.ack(4);
     }},
    {"ack_beyond_sent",
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.ack(3);
     }},
    {"ack_over_gap",
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.write(2);
       story.ack(2);
     }},
    {"ack_went_back",
     [](Story& story) {
       story.write_long(0, 4);
       story.ack(3);
       story.ack(1);
     }},
    {"response_unasked",
     [](Story& story) {
       story.write_long(0, 3);
       story.read(3, 2 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 2);
       story.responses(3, 2);
     }},
    {"response_gap_not_repaired",
     [](Story& story) {
       story.read(0, 4 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 0);
       story.response(Opcode::kRcReadResponseLast, 3);
       story.go_on(4);
     }},
    {"cnp_too_close",
     [](Story& story) {
       story.mark(true);
       story.write_long(0, 3);
       story.notify();
       story.wait(30 * kNanosecondsPerMicrosecond);
       story.notify();
       story.ack(2);
     }},
    {"cnp_without_mark",
     [](Story& story) {
       story.mark(true);
       story.write(0);
       story.notify();
       story.wait(kLong);
       story.notify();
       story.ack(0);
     }},
};

TEST(MadeWrong, EachFaultIsTheOnlyFinding) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.fault);
    Story story;
    wrong.tell(story);
    check::Verdict verdict;
    story.analyse(verdict, {.cnp_interval = 50 * kNanosecondsPerMicrosecond});
    EXPECT_EQ(found(verdict), std::string(wrong.fault) + " 1");
  }
}

TEST(MadeWrong, EveryFaultHasACapture) {
  for (std::size_t i = 0; i < check::kFaultCount; ++i) {
    const auto wanted = name(static_cast<check::Fault>(i));
    EXPECT_TRUE(std::any_of(std::begin(kWrong), std::end(kWrong), [&](const Wrong& wrong) {
      return wrong.fault == wanted;
    })) << wanted;
  }
}

TEST(Counts, MatchTheStory) {
  Story story;
  story.write_long(0, 6);
  story.nak(2);
  story.ask(kMiddle, 2, kMtu);
  story.ack(5);
  story.read(6, 2 * kMtu);
  story.responses(6, 2);
  check::Verdict verdict;
  story.analyse(verdict);
  ASSERT_EQ(verdict.of_half.size(), 2U);
  const check::Tally& asker = verdict.of_half[0].tally;
  const check::Tally& answerer = verdict.of_half[1].tally;
  EXPECT_EQ(asker.requests_sent, 7U);
  EXPECT_EQ(asker.requests_resent, 1U);
  EXPECT_EQ(answerer.naks_sent, 1U);
  EXPECT_EQ(answerer.sequence_naks_sent, 1U);
  EXPECT_EQ(answerer.acks_sent, 1U);
  EXPECT_EQ(answerer.responses_sent, 2U);
  EXPECT_EQ(answerer.payload_bytes, 2 * kMtu);
  ASSERT_NE(verdict.of_half[0].stream.times(), nullptr);
  const check::Times& times = *verdict.of_half[0].stream.times();
  EXPECT_EQ(times.reaction.max(), 10 * kNanosecondsPerMicrosecond);
  EXPECT_EQ(times.answer.max(), 50 * kNanosecondsPerMicrosecond);  // the second packet, by the NAK
}

TEST(Counts, GapsBeyondTheTableAreCounted) {
  constexpr std::uint32_t kMore = 3;
  Story story;
  for (std::uint32_t i = 0; i <= check::PsnGaps::kMax + kMore; ++i) {
    story.write(2 * i);  // leaves a gap before the next one
  }
  check::Verdict verdict;
  story.analyse(verdict);
  EXPECT_EQ(verdict.of_half[0].stream.gaps_forgotten(), kMore);
  std::ostringstream text;
  check::print_report(verdict, text);
  EXPECT_NE(text.str().find("3 holes of more than 256 at a time: not judged"), std::string::npos)
      << text.str();
}

struct Printed {
  int status = -1;
  std::string text;
};

Printed command(const std::string& arguments) {
  Printed printed;
  std::FILE* const pipe =
      ::popen((std::string(UROCE_CHECK_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (std::size_t length = 0; (length = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    printed.text.append(buffer, length);
  }
  const int status = ::pclose(pipe);
  printed.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return printed;
}

TEST(Command, ReportsFindingsInItsExitStatus) {
  Story story;
  story.write_long(0, 5);
  story.nak(1);
  story.nak(1);
  const std::string file = story.write_file().string();
  const Printed wrong = command(file);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.text.find("FAULT second_nak, frame 7 (0.060 ms): PSN 16777215"),
            std::string::npos)
      << wrong.text;
  EXPECT_NE(wrong.text.find("RC 10.0.0.1 QP 17 and 10.0.0.2 QP 34, path MTU 1024"),
            std::string::npos)
      << wrong.text;
  const Printed json = command("--json " + file);
  const auto object = nlohmann::json::parse(json.text, nullptr, false);
  ASSERT_TRUE(object.is_object()) << json.text;
  EXPECT_EQ(object["faults"], 1);
  EXPECT_EQ(object["directions"][0]["faults"]["counts"]["second_nak"], 1);
  EXPECT_EQ(object["directions"][1]["counters"]["naks_sent"], 2);

  const Printed right = command((*captures_folder() / "rc_read.pcap").string());
  EXPECT_EQ(right.status, 0) << right.text;
  EXPECT_EQ(command("/none.pcap").status, 2);
  EXPECT_EQ(command("").status, 2);
}

}  // namespace
}  // namespace uroce::test
