#include "control/reports/error_log.h"

#include <nlohmann/json.hpp>

#include "abi/error_records.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

constexpr Peer kUser{.pid = 1, .uid = 1000, .gid = 1000};

std::size_t count(const std::string& json) { return nlohmann::json::parse(json)["errors"].size(); }

TEST(ErrorLog, KeepsTheNewestLinesOfASession) {
  ErrorLog log;
  for (std::size_t i = 0; i <= ErrorLog::kLinesMax; ++i) {
    log.add(5, kUser, "line " + std::to_string(i));
  }
  const SessionErrors& errors = log.sessions().at(5);
  EXPECT_EQ(errors.lines.size(), ErrorLog::kLinesMax);
  EXPECT_EQ(errors.lines.front().text, "line 1");
  EXPECT_EQ(errors.forgotten, 1U);
}

TEST(ErrorLog, KeepsTheNewestSessions) {
  ErrorLog log;
  for (std::uint64_t session = 1; session <= ErrorLog::kSessionsMax + 1; ++session) {
    log.add(session, kUser, "a line");
  }
  EXPECT_EQ(log.sessions().size(), ErrorLog::kSessionsMax);
  EXPECT_FALSE(log.sessions().contains(1));
}

TEST(ErrorLog, TellsLinesInTheirOrderOverAllSessions) {
  ErrorLog log;
  log.add(2, kUser, "first");
  log.add(1, kUser, "second");
  const auto lines = nlohmann::json::parse(errors_json(log, 0, 1000));
  EXPECT_EQ(lines["last"], 2);
  EXPECT_EQ(lines["errors"][0]["text"], "first");
  EXPECT_EQ(lines["errors"][1]["session"], 1);
  EXPECT_EQ(count(errors_json(log, 1, 1000)), 1U);
}

TEST(ErrorLog, ShowsOthersLinesOnlyToRoot) {
  ErrorLog log;
  log.add(1, kUser, "a key");
  EXPECT_EQ(count(errors_json(log, 0, 1001)), 0U);
  EXPECT_EQ(count(errors_json(log, 0, 0)), 1U);
}

TEST(ErrorLog, GivesAsMuchTextAsFits) {
  ErrorLog log;
  log.add(1, kUser, "one");
  log.add(1, kUser, "two");
  EXPECT_EQ(errors_text(log, 1, 0, 100), "one\ntwo\n");
  EXPECT_EQ(errors_text(log, 1, 0, 7), "two\n");
  EXPECT_EQ(errors_text(log, 1, 1, 100), "two\n");
  EXPECT_EQ(errors_text(log, 9, 0, 100), "");
}

TEST(ErrorLog, HearsOfRefusedCalls) {
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
