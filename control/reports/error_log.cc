#include "control/reports/error_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/sockets/record_socket.h"
#include "base/time/wall_clock.h"
#include "control/reports/program_name.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

// Numbers are what begins with a digit: also "0x501", and each part of an IPv4 address.
std::string without_numbers(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string words;
  bool in_number = false;
  for (const char c : text) {
    in_number = is_digit(c) || (in_number && is_letter(c));
    if (!in_number) {
      words += c;
    }
  }
  return words;
}

std::string text_of(const ErrorLine& line) {
  return line.count == 1 ? line.text
                         : line.text + " (the last of " + std::to_string(line.count) +
                               " such refusals in a row)";
}

// Charges all lines of the session. False: beyond its user's limit.
bool pay(Account& account, SessionErrors* errors) {
  if (errors->lines.size() > 1) {
    return errors->charge.resize(errors->lines.size()).has_value();
  }
  auto charge = account.charge(Limit::kErrorLines);
  if (charge) {
    errors->charge = std::move(*charge);
  }
  return charge.has_value();
}

}  // namespace

ErrorLog::ErrorLog() : began_unix_time_ms_(unix_time_ms()) {}

void ErrorLog::add(std::uint64_t session, const Peer& peer, Account& account, std::string text) {
  const auto [place, is_new] = sessions_.try_emplace(session);
  SessionErrors& errors = place->second;
  if (is_new) {
    errors.pid = peer.pid;
    errors.uid = peer.uid;
    errors.program = program_name(peer);
  }
  errors.lines.push_back(
      {.number = ++last_, .unix_time_ms = unix_time_ms(), .text = std::move(text)});
  if (errors.lines.size() > kLinesMax || !pay(account, &errors)) {
    errors.lines.pop_front();
    ++errors.forgotten;
  }
  if (sessions_.size() > kSessionsMax) {
    make_room(session);
  }
}

void ErrorLog::add_refusal(std::uint64_t session, const Peer& peer, Account& account,
                           std::string text) {
  const auto known = sessions_.find(session);
  if (known == sessions_.end() || known->second.lines.empty() ||
      without_numbers(known->second.lines.back().text) != without_numbers(text)) {
    add(session, peer, account, std::move(text));
    return;
  }
  ErrorLine& line = known->second.lines.back();
  line = {.number = ++last_,
          .unix_time_ms = unix_time_ms(),
          .text = std::move(text),
          .count = line.count + 1};
}

// Drops the oldest session of the user who has most.
void ErrorLog::make_room(std::uint64_t newest) {
  std::map<uid_t, std::size_t> of_user;
  for (const auto& entry : sessions_) {
    ++of_user[entry.second.uid];
  }
  const auto most = std::max_element(
      of_user.begin(), of_user.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  const auto oldest = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.first != newest && entry.second.uid == most->first;
  });
  sessions_.erase(oldest != sessions_.end() ? oldest : sessions_.begin());
}

std::string errors_json(const ErrorLog& log, std::uint64_t after, uid_t reader) {
  struct Found {
    const ErrorLine* line;
    std::uint64_t session;
    const SessionErrors* of;
  };
  std::vector<Found> found;
  for (const auto& [session, errors] : log.sessions()) {
    if (reader != 0 && reader != errors.uid) {
      continue;  // lines contain keys and addresses
    }
    for (const ErrorLine& line : errors.lines) {
      if (line.number > after) {
        found.push_back({&line, session, &errors});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& left, const Found& right) {
    return left.line->number < right.line->number;
  });
  Json lines = Json::array();
  for (const Found& one : found) {
    lines.push_back({{"number", one.line->number},
                     {"unix_time_ms", one.line->unix_time_ms},
                     {"session", one.session},
                     {"pid", one.of->pid},
                     {"program", one.of->program},
                     {"count", one.line->count},
                     {"text", text_of(*one.line)}});
  }
  const Json json = {{"began_unix_time_ms", log.began_unix_time_ms()},
                     {"last", log.last()},
                     {"errors", std::move(lines)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string errors_text(const ErrorLog& log, std::uint64_t session, std::uint64_t after,
                        std::size_t bytes_max) {
  const auto found = log.sessions().find(session);
  if (found == log.sessions().end()) {
    return {};
  }
  const std::deque<ErrorLine>& lines = found->second.lines;
  std::size_t bytes = 0;
  auto first = lines.end();
  while (first != lines.begin() && std::prev(first)->number > after &&
         bytes + std::prev(first)->text.size() + 1 <= bytes_max) {
    --first;
    bytes += first->text.size() + 1;
  }
  std::string text;
  for (; first != lines.end(); ++first) {
    text += first->text + '\n';
  }
  return text;
}

}  // namespace uroce::control
