#include "apps/top/users.h"

#include <map>
#include <utility>

#include "base/short_number.h"

namespace uroce::top {
namespace {

constexpr const char* kUserRow = "%-10s %8s %6s %8s %9s %9s %8s";

// All that is a user's.
struct Usage {
  std::size_t programs = 0, queue_pairs = 0;
  double outstanding = 0, sent = 0, received = 0, again = 0;
};

}  // namespace

void add_users(const Json& before, const Json& now, double seconds, std::size_t rows_max,
               Lines& lines) {
  lines.push_back(row(kUserRow, cell("USER"), cell("PROGRAMS"), cell("QPS"), cell("OUT"),
                      cell("TX B/s"), cell("RX B/s"), cell("AGAIN/s")));
  const PreviousReport sessions(member(before, "sessions"), "id");
  std::map<std::string, Usage> users;
  for (const Json& session : member(now, "sessions")) {
    if (text(session, "device").empty()) {
      continue;  // who only asks for reports
    }
    Usage& usage = users[text(session, "uid")];
    ++usage.programs;
    const PreviousReport earlier(member(sessions.of(session), "qps"), "qpn");
    for (const Json& qp : member(session, "qps")) {
      const Json& old = earlier.of(qp);
      ++usage.queue_pairs;
      usage.outstanding += number(qp, "outstanding");
      usage.sent += rate_sent(old, qp, seconds);
      usage.received += rate(old, qp, "bytes_received", seconds);
      usage.again += rate(old, qp, "requests_resent", seconds);
    }
  }
  std::vector<Ranked> rows;
  rows.reserve(users.size());
  for (const auto& [uid, usage] : users) {
    rows.push_back(
        {usage.sent + usage.received,
         row(kUserRow, uid, std::to_string(usage.programs), std::to_string(usage.queue_pairs),
             short_number(usage.outstanding), short_number(usage.sent),
             short_number(usage.received), short_number(usage.again))});
  }
  add_ranked(std::move(rows), rows_max, "other users", lines);
}

}  // namespace uroce::top
