// What workers tell the control thread: frames for it, events and failures of programs' objects.

#include <string>

#include "control/commands/command_table.h"
#include "control/commands/neighbour_changes.h"
#include "control/reports/error_text.h"
#include "control/server/server.h"

namespace uroce::control {
namespace {

constexpr int kNoticesMax = 256;  // in one turn

}  // namespace

void Server::on_notices() {
  Notice notice;
  for (int i = 0; i < kNoticesMax && card_.engine().next_notice(&notice); ++i) {
    switch (notice.kind) {
      case Notice::Kind::kFrame:
        on_frame(notice);
        break;
      case Notice::Kind::kMad:
        card_.gsi.on_frame(card_.devices()[notice.port], notice.bytes);
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

void Server::on_frame(const Notice& notice) {
  if (notice.port >= card_.devices().size()) {
    return;
  }
  Device& device = card_.devices()[notice.port];
  const Device::Heard heard = device.on_frame(notice.bytes, card_.clock());
  if (heard.moved) {
    follow_neighbour(card_, device, *heard.moved);
  }
  if (heard.settled) {
    resume_waiting();
    card_.connections.on_addresses_settled();
  }
}

void Server::on_failure(const FailureReport& report) {
  if (const auto owner = card_.sessions.find(report.owner); owner != card_.sessions.end()) {
    card_.errors.add(report.owner, owner->second->peer(), error_text(report));
  }
}

void Server::on_async_event(const Notice& notice) {
  const auto event = static_cast<std::uint32_t>(notice.event);
  switch (notice.event) {
    case AsyncEvent::kCqErr:
      if (const Owner* owner = card_.cqns.find(notice.object); owner != nullptr) {
        announce_overrun(*owner->session, owner->handle);
        card_.errors.add(owner->session->id(), owner->session->peer(),
                         "completion queue " + std::to_string(owner->handle) +
                             " broke: a completion found no room, because the program polls too "
                             "seldom or made the queue too small");
      }
      return;
    case AsyncEvent::kSrqErr:
    case AsyncEvent::kSrqLimitReached:
      if (const Owner* owner = card_.srqns.find(notice.object); owner != nullptr) {
        const SrqObject* srq = owner->session->srqs.find(owner->handle);
        owner->session->announce(event, owner->handle, srq->cookie);
      }
      return;
    default:
      if (notice.event == AsyncEvent::kCommEst) {
        card_.connections.on_communication(notice.object);
      }
      if (const Owner* owner = card_.qpns.find(notice.object); owner != nullptr) {
        QpObject* qp = owner->session->qps.find(owner->handle);
        if (qp->target) {
          for_each_holder(*qp, [event](Session& session, const QpObject& held) {
            session.announce(event, 0, held.cookie);
          });
        } else {
          owner->session->announce(event, owner->handle, qp->cookie);
        }
      }
  }
}

}  // namespace uroce::control
