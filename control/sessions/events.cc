#include "control/sessions/events.h"

#include "control/sessions/card.h"
#include "control/sessions/session.h"
#include "control/sessions/xrc.h"

namespace uroce::control {
namespace {

void announce_of_srq(const Owner& owner, std::uint32_t event) {
  owner.session->announce(event, owner.handle, owner.session->srqs.find(owner.handle)->cookie);
}

// A receiving queue pair of an XRC domain: all who hold it are told.
void announce_of_qp(const Owner& owner, std::uint32_t event) {
  const QpObject& qp = *owner.session->qps.find(owner.handle);
  if (!qp.target) {
    owner.session->announce(event, owner.handle, qp.cookie);
    return;
  }
  for_each_holder(qp, [event](Session& session, const QpObject& held) {
    session.announce(event, 0, held.cookie);
  });
}

}  // namespace

void announce(Card& card, AsyncEvent event, std::uint32_t number) {
  const auto code = static_cast<std::uint32_t>(event);
  switch (event) {
    case AsyncEvent::kCqErr:
      if (const Owner* owner = card.cqns().find(number); owner != nullptr) {
        announce_overrun(*owner->session, owner->handle);
      }
      return;
    case AsyncEvent::kSrqErr:
    case AsyncEvent::kSrqLimitReached:
      if (const Owner* owner = card.srqns().find(number); owner != nullptr) {
        announce_of_srq(*owner, code);
      }
      return;
    default:
      if (const Owner* owner = card.qpns().find(number); owner != nullptr) {
        announce_of_qp(*owner, code);
      }
  }
}

// IBTA vol. 1, 11.6.3: what a queue pair would complete can't be told any more, so that those
// that complete into the queue go to the error state, and the program hears of each.
void announce_overrun(Session& session, std::uint32_t handle) {
  const CqObject* cq = session.cqs.find(handle);
  session.announce(static_cast<std::uint32_t>(AsyncEvent::kCqErr), handle, cq->cookie);
  session.qps.for_each([&](std::uint32_t qp_handle, const QpObject& object) {
    if (object.send_cq != cq && object.recv_cq != cq) {
      return;
    }
    Qp& qp = *object.qp;
    bool failed = false;
    session.card().engine().call(qp.config().worker, [&](Worker& worker) {
      failed = qp.state() != QpState::kReset && qp.state() != QpState::kErr;
      if (failed) {
        worker.modify_qp(qp, {.state = QpState::kErr}, kQpMaskState);
      }
    });
    if (failed) {
      session.announce(static_cast<std::uint32_t>(AsyncEvent::kQpFatal), qp_handle, object.cookie);
    }
  });
}

}  // namespace uroce::control
