#include "control/sessions/xrc.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "control/sessions/card.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

// Objects that one task of a worker visits: some tens of microseconds. A domain may have 30,000.
constexpr std::uint32_t kObjectsPerTask = 256;

// Calls visit(worker, target) for each receiving queue pair of the domain, in tasks of its worker.
template <typename Visit>
void for_each_target(Engine& engine, const SharedXrcDomain& domain, Visit&& visit) {
  std::array<XrcTarget*, kObjectsPerTask> some{};
  for (std::uint32_t at = 0; at < domain.seen.size(); ++at) {
    std::size_t count = 0;
    const auto visit_some = [&] {
      engine.call(at, [&](Worker& worker) {
        for (XrcTarget* target : std::span(some).first(count)) {
          visit(worker, *target);
        }
      });
      count = 0;
    };
    for (const auto& [qpn, target] : domain.targets) {
      if (target->qp->config().worker == at) {
        some[count++] = target;
      }
      if (count == some.size()) {
        visit_some();
      }
    }
    if (count != 0) {
      visit_some();
    }
  }
}

// The domain's receiving queue pairs forget the receives that they hold of queues that it has no
// more. One pass, however many queues have left it.
void forget_queues_that_left(Engine& engine, const SharedXrcDomain& domain) {
  for_each_target(engine, domain, [&](Worker& /*worker*/, const XrcTarget& target) {
    Qp& qp = *target.qp;
    if (domain.seen[qp.config().worker].find(qp.last_srq()) == nullptr) {
      qp.forget_srq(qp.last_srq());
    }
  });
}

// Removes the session's queues from what this worker sees of their domains.
void hide_queues(const Session& session, std::uint32_t worker) {
  const std::uint32_t end = session.srqs.handles_end();
  for (std::uint32_t first = 0; first < end; first += kObjectsPerTask) {
    session.card().engine().call(worker, [&](Worker&) {
      for (std::uint32_t at = first; at < std::min(first + kObjectsPerTask, end); ++at) {
        const SrqObject* const srq = session.srqs.find(at);
        if (srq != nullptr && srq->xrcd != nullptr) {
          srq->xrcd->domain->seen[worker].remove(srq->id.number());
        }
      }
    });
  }
}

}  // namespace

bool fail(Worker& worker, Qp& qp) {
  const bool works = qp.state() != QpState::kReset && qp.state() != QpState::kErr;
  if (works) {
    worker.modify_qp(qp, {.state = QpState::kErr}, kQpMaskState);
  }
  return works;
}

std::shared_ptr<SharedXrcDomain> XrcDomains::find(const XrcFile& file) const {
  const auto found = domains_.find(file);
  return found == domains_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<SharedXrcDomain> XrcDomains::make() const {
  return std::make_shared<SharedXrcDomain>(workers_);
}

std::shared_ptr<SharedXrcDomain> XrcDomains::make(const XrcFile& name, UniqueFd file,
                                                  Charge charge) {
  std::erase_if(domains_, [](const auto& entry) { return entry.second.expired(); });
  auto made = make();
  made->file = std::move(file);
  made->charge = std::move(charge);
  domains_[name] = made;
  return made;
}

XrcTarget::~XrcTarget() {
  if (domain != nullptr) {
    domain->targets.erase(qpn.number());
  }
}

std::unique_ptr<QpObject> make_handle(Session& session, const std::shared_ptr<XrcTarget>& target,
                                      Xrcd& xrcd, std::uint64_t cookie, Charge charge) {
  constexpr std::size_t kHandlesMin = 4;
  auto object = std::make_unique<QpObject>();
  object->charge = std::move(charge);
  object->cookie = cookie;
  object->qp = target->qp;
  object->target = target;
  object->xrcd = &xrcd;
  if (!target->handles.empty()) {
    const XrcTarget::Handle& first = target->handles.front();
    const QpObject& known = *first.session->qps.find(first.handle);
    object->attributes = known.attributes;
    object->path = known.path;
  }
  std::vector<XrcTarget::Handle>& handles = target->handles;
  if (handles.size() == handles.capacity()) {
    handles.reserve(std::max(kHandlesMin, 2 * handles.size()));  // doubled, since growing moves all
  }
  session.qps.make_room();
  return object;
}

std::uint32_t add_handle(Session& session, std::unique_ptr<QpObject> object) {
  XrcTarget& target = *object->target;
  ++object->xrcd->users;
  const std::uint32_t handle = session.qps.add(std::move(object));
  target.handles.push_back({&session, handle});
  return handle;
}

void release_handle(Session& session, std::uint32_t handle, QpObject& object) {
  XrcTarget& target = *object.target;
  Card& card = session.card();
  if (target.handles.size() == 1) {
    card.engine().call(target.qp->config().worker, [&](Worker& worker) {
      if (!session.ending()) {
        worker.send_posted(*target.qp);  // the acknowledgement of what was received
      }
      worker.remove_qp(*target.qp);
    });
  }
  --object.xrcd->users;
  std::erase_if(target.handles, [&](const XrcTarget::Handle& held) {
    return held.session == &session && held.handle == handle;
  });
  if (!target.handles.empty()) {
    card.qpns().set_owner(target.qpn.number(),
                          {target.handles.front().session, target.handles.front().handle});
  }
}

void for_each_handle(const QpObject& object,
                     const std::function<void(Session&, QpObject&)>& visit) {
  for (const XrcTarget::Handle& held : object.target->handles) {
    visit(*held.session, *held.session->qps.find(held.handle));
  }
}

void enter_xrc_domain(Engine& engine, const SrqObject& srq) {
  std::vector<XrcDomain>& seen = srq.xrcd->domain->seen;
  for (std::uint32_t worker = 0; worker < seen.size(); ++worker) {
    engine.call(worker, [&](Worker&) {
      seen[worker].add({.number = srq.id.number(),
                        .pd = srq.pd->id,
                        .queue = srq.queue.get(),
                        .completions = srq.cq->queue.get()});
    });
  }
}

void leave_xrc_domain(Engine& engine, const SrqObject& srq) {
  SharedXrcDomain& domain = *srq.xrcd->domain;
  for (std::uint32_t worker = 0; worker < domain.seen.size(); ++worker) {
    engine.call(worker, [&](Worker&) { domain.seen[worker].remove(srq.id.number()); });
  }
  forget_queues_that_left(engine, domain);
}

// Several handles may be of one domain, hence the flag.
void leave_xrc_domains(Session& session) {
  if (session.xrcds.count() == 0) {
    return;
  }
  Engine& engine = session.card().engine();
  for (std::uint32_t worker = 0; worker < engine.workers(); ++worker) {
    hide_queues(session, worker);
  }
  session.srqs.for_each([](std::uint32_t /*handle*/, const SrqObject& srq) {
    if (srq.xrcd != nullptr) {
      srq.xrcd->domain->queues_left = true;
    }
  });
  session.xrcds.for_each([&](std::uint32_t /*handle*/, const Xrcd& xrcd) {
    if (std::exchange(xrcd.domain->queues_left, false)) {
      forget_queues_that_left(engine, *xrcd.domain);
    }
  });
}

std::vector<XrcTarget*> fail_receivers(Engine& engine, SharedXrcDomain& domain,
                                       const std::set<std::uint32_t>& srqs) {
  std::vector<XrcTarget*> failed;
  for_each_target(engine, domain, [&](Worker& worker, XrcTarget& target) {
    if (srqs.contains(target.qp->last_srq()) && fail(worker, *target.qp)) {
      failed.push_back(&target);
    }
  });
  return failed;
}

}  // namespace uroce::control
