#include "control/sessions/events.h"

#include <map>
#include <set>

#include "control/sessions/card.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/session.h"
#include "control/sessions/xrc.h"
#include "dataplane/engine/threads/notices.h"

namespace uroce::control {
namespace {

// Events that can happen to each object without a command in between: kCommEst, kSqDrained, the
// cause of the error state, and kQpLastWqeReached; kCqErr; kSrqLimitReached and kSrqErr.
static_assert(4 * kQpsMax + kCqsMax + 2 * kSrqsMax <= Notices::kEventsMax);

// The numbers of the kind of object that the event is about.
const NumberPool& numbers_of(Card& card, AsyncEvent event) {
  switch (event) {
    case AsyncEvent::kCqErr:
      return card.cqns();
    case AsyncEvent::kSrqErr:
    case AsyncEvent::kSrqLimitReached:
      return card.srqns();
    default:
      return card.qpns();
  }
}

void announce_of_srq(const Owner& owner, std::uint32_t event) {
  owner.session->announce(event, owner.handle, owner.session->srqs.find(owner.handle)->cookie);
}

// For an XRC receive queue pair all its holders are notified.
void announce_of_qp(const Owner& owner, std::uint32_t event) {
  const QpObject& qp = *owner.session->qps.find(owner.handle);
  if (!qp.target) {
    owner.session->announce(event, owner.handle, qp.cookie);
    return;
  }
  for_each_handle(qp, [event](Session& session, const QpObject& held) {
    session.announce(event, 0, held.cookie);
  });
}

// The same for XRC shared receive queues: XRC receive queue pairs complete into these queues'
// completion queue. Later requests for such a queue are refused, and their queue pair then fails.
void fail_srqs(Session& session, const CqObject* cq) {
  Engine& engine = session.card().engine();
  std::map<SharedXrcDomain*, std::set<std::uint32_t>> failed;
  session.srqs.for_each([&](std::uint32_t handle, const SrqObject& srq) {
    if (srq.cq != cq) {
      return;
    }
    bool worked = false;
    // As in modify_srq(): between two turns of the only worker, or under the queue's lock.
    engine.call(0, [&](Worker&) { worked = srq.queue->set_broken(); });
    if (worked) {
      session.announce(static_cast<std::uint32_t>(AsyncEvent::kSrqErr), handle, srq.cookie);
    }
    failed[srq.xrcd->domain.get()].insert(srq.id.number());
  });
  for (const auto& [domain, srqs] : failed) {
    for (const XrcTarget* target : fail_receivers(engine, *domain, srqs)) {
      const XrcTarget::Handle& first = target->handles.front();
      announce_of_qp({first.session, first.handle},
                     static_cast<std::uint32_t>(AsyncEvent::kQpFatal));
    }
  }
}

}  // namespace

Session* announce(Card& card, AsyncEvent event, std::uint32_t number) {
  const Owner* const owner = numbers_of(card, event).find(number);
  if (owner == nullptr) {
    return nullptr;
  }
  const auto code = static_cast<std::uint32_t>(event);
  switch (event) {
    case AsyncEvent::kCqErr:
      announce_overrun(*owner->session, owner->handle);
      break;
    case AsyncEvent::kSrqErr:
    case AsyncEvent::kSrqLimitReached:
      announce_of_srq(*owner, code);
      break;
    default:
      announce_of_qp(*owner, code);
  }
  return owner->session;
}

// IBTA vol. 1, 11.6.3: completions can't be reported any more, so queue pairs that complete into
// the queue go to the error state, and the program gets an event for each.
void announce_overrun(Session& session, std::uint32_t handle) {
  const CqObject* cq = session.cqs.find(handle);
  session.announce(static_cast<std::uint32_t>(AsyncEvent::kCqErr), handle, cq->cookie);
  if (cq->users == 0) {
    return;
  }
  session.qps.for_each([&](std::uint32_t qp_handle, const QpObject& object) {
    if (object.send_cq != cq && object.recv_cq != cq) {
      return;
    }
    bool failed = false;
    session.card().engine().call(object.qp->config().worker,
                                 [&](Worker& worker) { failed = fail(worker, *object.qp); });
    if (failed) {
      session.announce(static_cast<std::uint32_t>(AsyncEvent::kQpFatal), qp_handle, object.cookie);
    }
  });
  fail_srqs(session, cq);
}

}  // namespace uroce::control
