#include "control/reports/error_log.h"

#include <nlohmann/json.hpp>

#include "abi/error_records.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

const Peer kUser{.pid = 1, .uid = 1000, .gid = 1000};
const std::shared_ptr<Account> kAccount = make_private_account();

std::size_t count(const std::string& json) { return nlohmann::json::parse(json)["errors"].size(); }

TEST(ErrorLog, KeepsTheNewestLinesOfASession) {
  ErrorLog log;
  for (std::size_t i = 0; i <= ErrorLog::kLinesMax; ++i) {
    log.add(5, kUser, *kAccount, "line " + std::to_string(i));
  }
  const SessionErrors& errors = log.sessions().at(5);
  EXPECT_EQ(errors.lines.size(), ErrorLog::kLinesMax);
  EXPECT_EQ(errors.lines.front().text, "line 1");
  EXPECT_EQ(errors.forgotten, 1U);
}

TEST(ErrorLog, KeepsTheNewestSessions) {
  ErrorLog log;
  for (std::uint64_t session = 1; session <= ErrorLog::kSessionsMax + 1; ++session) {
    log.add(session, kUser, *kAccount, "a line");
  }
  EXPECT_EQ(log.sessions().size(), ErrorLog::kSessionsMax);
  EXPECT_FALSE(log.sessions().contains(1));
}

TEST(ErrorLog, TheUserWithMostSessionsMakesRoom) {
  ErrorLog log;
  const Peer kQuiet{.pid = 2, .uid = 1001, .gid = 1001};
  log.add(1, kQuiet, *kAccount, "the only one");
  for (std::uint64_t session = 2; session < 2 * ErrorLog::kSessionsMax; ++session) {
    log.add(session, kUser, *kAccount, "one of many");
  }
  EXPECT_EQ(log.sessions().size(), ErrorLog::kSessionsMax);
  EXPECT_TRUE(log.sessions().contains(1));
}

TEST(ErrorLog, LinesOfAUserAreLimited) {
  Shares shares;
  shares.set_limits({.of_everybody = {{Limit::kErrorLines, 3}}, .of_user = {}});
  const auto poor = shares.of({.uid = 1000});
  {
    ErrorLog log;
    for (int i = 0; i < 10; ++i) {
      log.add(1, kUser, *poor, "line " + std::to_string(i));
    }
    EXPECT_EQ(log.sessions().at(1).lines.size(), 3U);
    EXPECT_EQ(log.sessions().at(1).lines.back().text, "line 9");
    EXPECT_EQ(poor->used(Limit::kErrorLines), 3U);
  }
  EXPECT_EQ(poor->used(Limit::kErrorLines), 0U);
}

TEST(ErrorLog, ListsLinesOfAllSessionsInOrder) {
  ErrorLog log;
  log.add(2, kUser, *kAccount, "first");
  log.add(1, kUser, *kAccount, "second");
  const auto lines = nlohmann::json::parse(errors_json(log, 0, 1000));
  EXPECT_EQ(lines["last"], 2);
  EXPECT_EQ(lines["errors"][0]["text"], "first");
  EXPECT_EQ(lines["errors"][1]["session"], 1);
  EXPECT_EQ(count(errors_json(log, 1, 1000)), 1U);
}

TEST(ErrorLog, ShowsOthersLinesOnlyToRoot) {
  ErrorLog log;
  log.add(1, kUser, *kAccount, "a key");
  EXPECT_EQ(count(errors_json(log, 0, 1001)), 0U);
  EXPECT_EQ(count(errors_json(log, 0, 0)), 1U);
}

TEST(ErrorLog, ReturnsAsMuchTextAsFits) {
  ErrorLog log;
  log.add(1, kUser, *kAccount, "one");
  log.add(1, kUser, *kAccount, "two");
  EXPECT_EQ(errors_text(log, 1, 0, 100), "one\ntwo\n");
  EXPECT_EQ(errors_text(log, 1, 0, 7), "two\n");
  EXPECT_EQ(errors_text(log, 1, 1, 100), "two\n");
  EXPECT_EQ(errors_text(log, 9, 0, 100), "");
}

TEST(ErrorLog, RefusalsInARowThatDifferInNumbersAreOneLine) {
  ErrorLog log;
  log.add_refusal(1, kUser, *kAccount, "make refused: size is at most 1024, not 2048");
  log.add_refusal(2, kUser, *kAccount, "another session's");
  for (int size = 1'536; size > 1'024; --size) {
    log.add_refusal(1, kUser, *kAccount,
                    "make refused: size is at most 1024, not " + std::to_string(size));
  }
  const auto lines = nlohmann::json::parse(errors_json(log, 0, 1000))["errors"];
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["text"], "another session's");
  EXPECT_EQ(
      lines[1]["text"],
      "make refused: size is at most 1024, not 1025 (the last of 513 such refusals in a row)");
  EXPECT_EQ(lines[1]["count"], 513);
  EXPECT_EQ(lines[1]["number"], log.last()) << "--follow shows it again";
  EXPECT_EQ(errors_text(log, 1, 513, 1'000), "make refused: size is at most 1024, not 1025\n")
      << "what its program is told of one call";
}

TEST(ErrorLog, OtherRefusalsHaveLinesOfTheirOwn) {
  ErrorLog log;
  log.add_refusal(1, kUser, *kAccount, "make refused: size is at most 1024, not 2048");
  log.add_refusal(1, kUser, *kAccount, "drop refused: there is no CQ 0x4a");
  log.add_refusal(1, kUser, *kAccount, "make refused: size is at most 1024, not 2048");
  log.add(1, kUser, *kAccount, "QP 1: SEND with wr_id 0x1 failed");
  log.add(1, kUser, *kAccount, "QP 1: SEND with wr_id 0x2 failed");
  EXPECT_EQ(count(errors_json(log, 0, 1000)), 5U) << "failed work requests are all told";
}

TEST(ErrorLog, RecordsRefusedCalls) {
  Rig rig;
  Program program(rig);
  program.open();
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyCq, 4711).header.error, EINVAL);
  const std::string text = errors_text(rig.errors, program.session.id(), 0, 1000);
  EXPECT_NE(text.find("destroy CQ refused with EINVAL"), std::string::npos) << text;
  EXPECT_NE(text.find("4711"), std::string::npos) << text;
  const auto answer =
      program.ask(abi::Command::kOwnErrors, abi::ErrorsRequest{}).as<abi::OwnErrorsReply>();
  EXPECT_EQ(text, answer.text);
  EXPECT_EQ(answer.last, 1U);
}

}  // namespace
}  // namespace uroce::control
