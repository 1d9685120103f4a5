// Notices from workers to the control thread: frames for it, events and failures of programs'
// objects.

#include <spdlog/spdlog.h>

#include <array>
#include <span>
#include <string>

#include "control/reports/error_text.h"
#include "control/reports/unanswered.h"
#include "control/server/server.h"
#include "control/sessions/events.h"

namespace uroce::control {
namespace {

constexpr int kNoticesMax = 256;      // per turn
constexpr std::size_t kRoomsMax = 8;  // programs with room for events, per turn

}  // namespace

void Server::on_notices() {
  Notice notice;
  for (int i = 0; i < kNoticesMax && card_.engine().next_notice(&notice); ++i) {
    switch (notice.kind) {
      case Notice::Kind::kFrame:
        on_frame(notice);
        break;
      case Notice::Kind::kMad:
        services_.connections.gsi().on_frame(card_.devices()[notice.port], notice.bytes);
        break;
      case Notice::Kind::kAsyncEvent:
        on_async_event(notice);
        break;
      case Notice::Kind::kFailure:
        on_failure(notice.failure);
        break;
    }
  }
}

// Programs have read some of their events, so more can be sent. The time is charged to their users.
void Server::on_event_room() {
  std::array<std::uint64_t, kRoomsMax> sessions;
  const std::size_t count = card_.event_socket_watch().ready(sessions);
  for (const std::uint64_t id : std::span(sessions).first(count)) {
    Session* const session = card_.find_session(id);
    if (session != nullptr) {
      const Time begun = card_.now();
      session->events().send_waiting();
      throttled_users_.note(session->account()->user(), begun, card_.now());
    }
  }
}

void Server::on_frame(const Notice& notice) {
  if (notice.port >= card_.devices().size()) {
    return;
  }
  Device& device = card_.devices()[notice.port];
  if (const auto error = device.path_error(notice.bytes)) {
    on_path_error(device, *error);
    return;
  }
  // Who waits for an address is looked for once a turn, whatever comes: it may be 60,000 ids.
  addresses_settled_ |= device.on_frame(notice.bytes, card_.now());
}

void Server::on_path_error(const Device& device, const PathError& error) {
  if (path_problems_.record(error, card_.now())) {
    spdlog::warn("{}: {}", device.name(), to_string(error));
  }
  services_.connections.on_path_error(device, error);
}

void Server::on_failure(const FailureReport& report) {
  if (const Session* owner = card_.find_session(report.owner); owner != nullptr) {
    services_.errors.add(report.owner, owner->peer(), *owner->account(),
                         error_text(report) + why_unanswered(card_, path_problems_, report));
  }
}

void Server::on_async_event(const Notice& notice) {
  if (notice.event == AsyncEvent::kCommEst) {
    services_.connections.on_communication(notice.object);
  }
  if (notice.event != AsyncEvent::kCqErr) {
    announce(card_, notice.event, notice.object);
    return;
  }
  // An overrun takes as long as the session has objects, so the time is charged to its user.
  const Time begun = card_.now();
  if (Session* const owner = announce(card_, notice.event, notice.object); owner != nullptr) {
    throttled_users_.note(owner->account()->user(), begun, card_.now());
  }
  log_overrun(notice.object);
}

void Server::log_overrun(std::uint32_t cqn) {
  if (const Owner* owner = card_.cqns().find(cqn); owner != nullptr) {
    services_.errors.add(owner->session->id(), owner->session->peer(), *owner->session->account(),
                         "completion queue " + std::to_string(owner->handle) +
                             " broke: a completion found no room, because the program polls too "
                             "seldom or made the queue too small");
  }
}

}  // namespace uroce::control
