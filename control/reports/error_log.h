#pragma once

// The error log that `uroce errors` reads: a line for each failed completion, refused call and
// broken queue. Bounded: it keeps the newest lines of each session, and of the newest sessions of
// each user, including ended ones; lines are charged to the user, and when the log is full, the
// user with the most sessions loses the oldest. Control thread only.

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "shares/account.h"

namespace uroce {
struct Peer;
}

namespace uroce::control {

struct ErrorLine {
  std::uint64_t number = 0;        // counts from 1, over all sessions
  std::uint64_t unix_time_ms = 0;  // when control learned of it
  std::string text;                // one sentence
  std::uint64_t count = 1;         // of refusals in a row that are alike; this is the last
};

struct SessionErrors {
  pid_t pid = 0;
  uid_t uid = 0;
  std::string program;
  std::uint64_t forgotten = 0;  // older lines that were discarded
  std::deque<ErrorLine> lines;  // oldest first
  Charge charge;
};

class ErrorLog {
 public:
  static constexpr std::size_t kLinesMax = 64;      // of a session
  static constexpr std::size_t kSessionsMax = 256;  // sessions kept

  ErrorLog();
  void add(std::uint64_t session, const Peer& peer, Account& account, std::string text);
  // A refused call. Takes the place of the session's last line if that differs in numbers at most:
  // libraries search for a limit by many refused calls (Open MPI and libfabric for
  // max_inline_data).
  void add_refusal(std::uint64_t session, const Peer& peer, Account& account, std::string text);

  [[nodiscard]] std::uint64_t last() const { return last_; }
  // Tells it from the log of an earlier daemon.
  [[nodiscard]] std::uint64_t began_unix_time_ms() const { return began_unix_time_ms_; }
  [[nodiscard]] const std::map<std::uint64_t, SessionErrors>& sessions() const { return sessions_; }

 private:
  void make_room(std::uint64_t newest);

  const std::uint64_t began_unix_time_ms_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, SessionErrors> sessions_;
};

// Lines after number `after` that the user id may read (its own; root: all), as
// {"began_unix_time_ms": t, "last": n, "errors": [{...}]}, oldest first. A line of several refusals
// says how many.
std::string errors_json(const ErrorLog& log, std::uint64_t after, uid_t reader);

// The newest lines of one session after number `after`, oldest first, each ended by a newline: as
// many as fit into `bytes_max`.
std::string errors_text(const ErrorLog& log, std::uint64_t session, std::uint64_t after,
                        std::size_t bytes_max);

}  // namespace uroce::control
