#pragma once

// The status report (JSON) shown by `uroce status`. Made in pieces, since it may contain 65,519
// queue pairs, which must not delay control or the workers.

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
  // kDevices: devices and workers only. kObjects: with each object of each session
  // (session_objects.h).
  enum class Detail : std::uint8_t { kDevices, kPlain, kObjects };

  // All references outlive it. Administrators see all users' programs, others their own; devices
  // and workers are shown to everybody. `watchdog`: nullptr if the threads aren't watched.
  StatusReport(Card& card, const cm_user::Service& connections, const Watchdog* watchdog,
               const Peer& reader, std::shared_ptr<const Account> account,
               Detail detail = Detail::kPlain);
  StatusReport(const StatusReport&) = delete;  // its members refer to it
  StatusReport& operator=(const StatusReport&) = delete;

  // The next piece of the text. Visits a number of queue pairs that delays packets for some 100 us,
  // and the control thread's other work for some milliseconds. May be empty. Objects created or
  // destroyed meanwhile may be included or not. REQUIRES: !done()
  std::string next();
  [[nodiscard]] bool done() const { return part_ == Part::kEnd; }
  // The size of its state between pieces.
  [[nodiscard]] std::size_t bytes() const { return connections_ ? connections_->bytes() : 0; }

 private:
  static constexpr std::size_t kPieceFull = kRecordMax / 2;
  enum class Part : std::uint8_t { kHead, kSessions, kDevices, kConnections, kEnd };

  [[nodiscard]] bool visible(const Session& session) const;
  [[nodiscard]] bool sums_latencies() const;
  std::string next_part(std::size_t* visits);
  std::string head();
  std::string next_queue_pairs(std::size_t* visits);
  std::string visit_some(const Session& session, std::size_t* visits);
  std::string next_objects(const Session& session, std::size_t* visits);
  std::string end_session();
  std::string devices();

  Card& card_;
  const Watchdog* watchdog_;
  Detail detail_;
  bool sees_all_;
  std::shared_ptr<const Account> account_;
  std::optional<cm_user::Report> connections_;
  Part part_ = Part::kHead;
  std::vector<RoceCounters> counted_;  // of each device's queue pairs
  std::vector<Latencies> latencies_;
  // For each worker, whether it has responded: one that hasn't isn't asked again, and its data is
  // left out.
  std::vector<bool> answers_;
  std::uint64_t session_ = 0;  // where the walk continues
  std::uint32_t handle_ = 0;
  bool begun_ = false;  // that session's JSON object is open
  bool shown_ = false;  // that session is shown to this reader
  bool first_session_ = true, first_qp_ = true;
  std::optional<SessionObjects> objects_;  // of the current session, after its queue pairs
};

}  // namespace uroce::control
