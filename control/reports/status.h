#pragma once

// The status report that `uroce status` shows, as JSON. Made piece by piece, since it may contain
// 65,519 queue pairs, and neither control nor the workers may be delayed by them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sockets/record_limits.h"
#include "base/sockets/record_socket.h"
#include "control/cm_user/report.h"
#include "control/reports/session_objects.h"
#include "control/reports/watchdog.h"
#include "control/sessions/card.h"

namespace uroce::control {

class StatusReport {
 public:
  // kObjects: with each object of each session (session_objects.h).
  enum class Detail : std::uint8_t { kPlain, kObjects };

  // Everything outlives it. Administrators are shown everybody's programs, others their own;
  // devices and workers are everybody's business.
  // `watchdog`: nullptr where nobody watches the threads.
  StatusReport(Card& card, const cm_user::Service& connections, const Watchdog* watchdog,
               const Peer& reader, std::shared_ptr<const Account> account,
               Detail detail = Detail::kPlain);
  StatusReport(const StatusReport&) = delete;  // a part of it refers to it
  StatusReport& operator=(const StatusReport&) = delete;

  // The next piece of the text: a look at so many queue pairs that packets wait for some 100 us,
  // and the control thread's other work for some milliseconds. May be empty. What comes or goes
  // meanwhile is in it or not. REQUIRES: !done()
  std::string next();
  [[nodiscard]] bool done() const { return part_ == Part::kEnd; }
  // Of what it remembers from one piece to the next.
  [[nodiscard]] std::size_t bytes() const { return connections_.bytes(); }

 private:
  static constexpr std::size_t kPieceFull = kRecordMax / 2;
  enum class Part : std::uint8_t { kHead, kSessions, kDevices, kConnections, kEnd };

  [[nodiscard]] bool visible(const Session& session) const;
  std::string next_part(std::size_t* looks);
  std::string head();
  std::string next_queue_pairs(std::size_t* looks);
  std::string look_at_some(const Session& session, std::size_t* looks);
  std::string next_objects(const Session& session, std::size_t* looks);
  std::string end_session();
  std::string devices();

  Card& card_;
  const Watchdog* watchdog_;
  bool sees_all_;
  std::shared_ptr<const Account> account_;
  cm_user::Report connections_;
  Part part_ = Part::kHead;
  std::vector<RoceCounters> counted_;  // of each device's queue pairs
  std::vector<Latencies> latencies_;
  // Of each worker, whether it did: one that didn't isn't asked again, and what it knows is left
  // out.
  std::vector<bool> answers_;
  std::uint64_t session_ = 0;  // where it goes on
  std::uint32_t handle_ = 0;
  bool begun_ = false;  // that session is, and its end is still to come
  bool shown_ = false;  // to this reader
  bool first_session_ = true, first_qp_ = true;
  Detail detail_;
  std::optional<SessionObjects> objects_;  // of the session that was begun, behind its queue pairs
};

}  // namespace uroce::control
