// `uroce replay` as a command: its report over every capture of a real peer is kept as golden text
// (golden/), answers are written as a capture, a script configures the card, bad input is refused.
//
// After an intended change: UROCE_WRITE_GOLDEN=1 replay_command_test, and review the difference.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "apps/replay/capture_file.h"
#include "apps/replay/flow.h"
#include "tests/replay/captures.h"

namespace uroce::test {
namespace {

namespace fs = std::filesystem;

struct Answer {
  int status = -1;
  std::string text;  // of both outputs
};

Answer replay_command(const std::string& arguments) {
  const std::string command = std::string(UROCE_REPLAY).append(" ") + arguments + " 2>&1";
  Answer answer;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t length = 0; (length = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    answer.text.append(buffer, length);
  }
  const int status = ::pclose(pipe);
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string capture(const std::string& name) {
  return (*captures_folder() / (name + ".pcap")).string();
}

// A test's own folder.
class ReplayCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/uroce-replay-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  void expect_refused(const std::string& arguments, const std::string& why) {
    const Answer answer = replay_command(arguments);
    EXPECT_EQ(answer.status, 1) << answer.text;
    EXPECT_NE(answer.text.find(why), std::string::npos) << answer.text;
    EXPECT_EQ(answer.text.find('\n'), answer.text.size() - 1) << "one line, not " << answer.text;
  }

  fs::path folder_;
};

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, TheReportMatches) {
  const fs::path golden = fs::path(UROCE_GOLDEN) / (GetParam() + ".txt");
  const Answer answer = replay_command(capture(GetParam()));
  EXPECT_EQ(answer.status, 0);
  if (std::getenv("UROCE_WRITE_GOLDEN") != nullptr) {
    std::ofstream(golden) << answer.text;
  }
  EXPECT_EQ(answer.text, text_of(golden));
}

INSTANTIATE_TEST_SUITE_P(Captures, Golden, testing::ValuesIn(capture_names()),
                         [](const auto& instance) { return instance.param; });

// A removed capture would otherwise leave its golden text behind unnoticed.
TEST(GoldenTexts, EachHasACapture) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(UROCE_GOLDEN)) {
    if (entry.path().extension() == ".txt") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, capture_names());
}

TEST_F(ReplayCommand, AnswersAreWrittenAsACapture) {
  const std::string out = (folder_ / "out.pcap").string();
  ASSERT_EQ(replay_command(capture("rc_read") + " --out " + out).status, 0);
  const auto given = replay::read_capture(out);
  const auto recorded = replay::read_capture(capture("rc_read"));
  ASSERT_TRUE(given && recorded);
  std::size_t answers = 0;
  for (const auto& frame : replay::parse_all(*recorded)) {
    answers += frame->answer() ? 1 : 0;
  }
  ASSERT_EQ(given->size(), answers);
  Time last = 0;
  for (const auto& frame : *given) {
    EXPECT_TRUE(replay::ParsedFrame(frame.bytes).answer());
    EXPECT_GE(frame.time, last);
    last = frame.time;
  }
}

// The start of a report is a script: as input, it gives the same fates.
TEST_F(ReplayCommand, AReportIsAScript) {
  const Answer derived = replay_command(capture("rc_write"));
  const std::string script = write("script", derived.text.substr(0, derived.text.find("\n1 ") + 1));
  EXPECT_EQ(replay_command(capture("rc_write") + " --script " + script).text, derived.text);
}

TEST_F(ReplayCommand, AScriptDecides) {
  const std::string script =
      write("script",
            "region A key=0x100 iova=0x1000 length=65536 access=local\n"
            "qp q peer=10.77.0.3 qpn=17 peer_qpn=17 psn=2000 rnr=20\n"
            "recv q 1 to=A:64  # for the first message; nothing for the second\n"
            "recv q 2\n"
            "show q\n"
            "poll q recv\n"
            "memory A:0\n"
            "event\n"
            "memory B\n"
            "counters\n");
  const Answer answer = replay_command(capture("rc_send") + " --script " + script);
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.text.find("refused.receive_too_short"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("dropped.wrong_qp_state"), std::string::npos) << answer.text;
  // Its queries are answered at the end.
  EXPECT_NE(answer.text.find("? show q\nqp=q qpn=17 state=ERR"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("? poll q recv\nwr=1 status=SUCCESS qp=17 opcode=RECV length=0"),
            std::string::npos)
      << answer.text;
  EXPECT_NE(answer.text.find("? memory A:0\nlength=0 bytes=\n"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("? event\nevent=none"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("? memory B\nerror="), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("drop.wrong_qp_state="), std::string::npos) << answer.text;
}

TEST_F(ReplayCommand, OtherAddressesAreNotOurs) {
  const Answer answer = replay_command(capture("rc_send") + " --ip 10.77.0.9");
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.text.find("dropped.not_our_address=9"), std::string::npos) << answer.text;
}

TEST_F(ReplayCommand, RefusesAnInvalidScript) {
  const auto refused = [&](const std::string& text, const std::string& why) {
    expect_refused(capture("rc_send") + " --script " + write("script", text), why);
  };
  refused("region A key=1 length=10\n", "line 1: iova= is missing");
  refused("\nsend q 1 opcode=SEND\n", "line 2: `send` isn't a command of scripts");
  refused("region A key=1 iova=0 length=1000000000000\n", "line 1: a region needs");
  refused("qp q peer=nobody qpn=17\n", "line 1: peer= takes an IP address");
  refused("card ip=10.77\n", "line 1: ip= takes an IP address");
  refused("card mac=02:00:00:00:00:01\n", "line 1: a card needs ip=");
  refused("recv q 1\n", "line 1: recv needs a queue pair");
  refused("qp q peer=10.77.0.3 qpn=17 qps=3\n", "line 1: `qps` isn't understood");
  expect_refused(capture("rc_send") + " --script " + folder_.string() + "/none", "can't be read");
}

TEST_F(ReplayCommand, RefusesAnInvalidCapture) {
  const std::string good = text_of(capture("rc_send"));
  ASSERT_GT(good.size(), 100U);
  expect_refused((folder_ / "none.pcap").string(), "No such file");
  expect_refused(write("empty", ""), "empty");
  expect_refused(write("text", std::string(200, 'x')), "text: unknown file format");
  expect_refused(write("header", good.substr(0, 10)), "header: truncated");
  expect_refused(write("cut", good.substr(0, good.size() - 3)), "frame 15: truncated");
  std::string other = good;
  other[20] = 113;  // DLT_LINUX_SLL
  expect_refused(write("cooked", other), "cooked: not a capture of Ethernet frames");
  std::string absurd = good;
  absurd.replace(24 + 8, 4, "\xff\xff\xff\x7f");  // the first frame's length
  expect_refused(write("absurd", absurd), "absurd: frame 1");
}

}  // namespace
}  // namespace uroce::test
