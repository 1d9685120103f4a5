// Commands about XRC: domains, their receiving queue pairs, and what makes a shared receive queue
// one of a domain.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "abi/cq_records.h"
#include "control/commands/command_table.h"
#include "control/sessions/xrc.h"

namespace uroce::control {
namespace {

Result<XrcFile> identify(const Session& session, const UniqueFd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    return system_error("the XRC domain's file can't be looked at");
  }
  return XrcFile{
      .device = session.device()->index(), .file_system = status.st_dev, .inode = status.st_ino};
}

Result<std::shared_ptr<SharedXrcDomain>> make_domain(Card& card) {
  std::erase_if(card.xrc_domains, [](const auto& entry) { return entry.second.expired(); });
  if (card.xrc_domains.size() >= kXrcDomainsMax) {
    return Error{ENOMEM, "all " + std::to_string(kXrcDomainsMax) + " XRC domains are taken"};
  }
  return std::make_shared<SharedXrcDomain>(card.engine().workers());
}

// As Linux has it: whoever doesn't say O_CREAT finds a domain or gets EAGAIN, and O_EXCL refuses
// one that is there.
Result<std::shared_ptr<SharedXrcDomain>> open_domain(Session& session, std::uint32_t flags,
                                                     Request& request) {
  Card& card = session.card();
  const bool creates = (flags & abi::kXrcdCreate) != 0;
  if (request.descriptors.empty()) {
    if (!creates) {
      return Error{EAGAIN, "without a file there is no XRC domain to find: O_CREAT makes one"};
    }
    return make_domain(card);
  }
  const auto file = identify(session, request.descriptors.front());
  if (!file) {
    return file.error();
  }
  if (const auto found = card.xrc_domains.find(*file); found != card.xrc_domains.end()) {
    if (auto domain = found->second.lock()) {
      if ((flags & abi::kXrcdExclusive) != 0) {
        return Error{EINVAL, "the file has an XRC domain already, and O_EXCL wants a new one"};
      }
      return domain;
    }
  }
  if (!creates) {
    return Error{EAGAIN, "the file has no XRC domain; O_CREAT makes one"};
  }
  auto made = make_domain(card);
  if (made) {
    (*made)->file = std::move(request.descriptors.front());
    card.xrc_domains[*file] = *made;
  }
  return made;
}

// A session's handle of a receiving queue pair, which one of its own sessions knows best.
std::uint32_t hold(Session& session, const std::shared_ptr<XrcTarget>& target, Xrcd& xrcd,
                   std::uint64_t cookie) {
  auto object = std::make_unique<QpObject>();
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
  ++xrcd.users;
  const std::uint32_t handle = session.qps.add(std::move(object));
  target->handles.push_back({&session, handle});
  return handle;
}

}  // namespace

Result<Outcome> open_xrcd(Session& session, Request& request, Reply* reply) {
  const std::uint32_t flags = request.as<abi::OpenXrcdRequest>().flags;
  Totals& totals = session.card().totals;
  if (session.xrcds.count() >= kSessionXrcdsMax || totals.xrcds >= kXrcdsMax) {
    return Error{ENOMEM, "a program opens at most " + std::to_string(kSessionXrcdsMax) +
                             " XRC domains, all together " + std::to_string(kXrcdsMax)};
  }
  auto domain = open_domain(session, flags, request);
  if (!domain) {
    return domain.error();
  }
  auto xrcd = std::make_unique<Xrcd>();
  xrcd->domain = std::move(*domain);
  ++totals.xrcds;
  reply->set_handle(session.xrcds.add(std::move(xrcd)));
  return Outcome::kReply;
}

Result<Outcome> close_xrcd(Session& session, Request& request, Reply* /*reply*/) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const Xrcd* xrcd = session.xrcds.find(handle);
  if (xrcd == nullptr) {
    return no_such("XRC domain", handle);
  }
  if (xrcd->users != 0) {
    return still_used("XRC domain", handle, xrcd->users);
  }
  remove_xrcd(session, handle);
  return Outcome::kReply;
}

void remove_xrcd(Session& session, std::uint32_t handle) {
  session.xrcds.remove(handle);
  --session.card().totals.xrcds;
}

Result<Outcome> create_xrc_target(Session& session, const abi::CreateQpRequest& body,
                                  Reply* reply) {
  Xrcd* xrcd = session.xrcds.find(body.xrcd);
  if (xrcd == nullptr) {
    return no_such("XRC domain", body.xrcd);
  }
  Card& card = session.card();
  abi::CreateQpReply answer{};
  answer.qpn = card.qpns.take({&session, 0});
  if (answer.qpn == 0) {
    return Error{ENOMEM, "all " + std::to_string(kQpsMax) + " queue pairs are taken"};
  }
  answer.worker = card.engine().owner_of(answer.qpn);
  QpConfig config;
  config.qpn = answer.qpn;
  config.type = QpType::kXrcRecv;
  config.port = static_cast<std::uint16_t>(session.device()->index());
  config.worker = answer.worker;
  config.xrc_domain = &xrcd->domain->seen[answer.worker];
  auto target = std::make_shared<XrcTarget>();
  target->domain = xrcd->domain;
  target->qp = std::make_shared<Qp>(config);
  target->domain->targets[answer.qpn] = target.get();
  card.engine().call(answer.worker, [&](Worker& worker) { worker.add_qp(*target->qp); });
  answer.handle = hold(session, target, *xrcd, body.cookie);
  card.qpns.set_owner(answer.qpn, {&session, answer.handle});
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> open_qp(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::OpenQpRequest>();
  Xrcd* xrcd = session.xrcds.find(body.xrcd);
  if (xrcd == nullptr) {
    return no_such("XRC domain", body.xrcd);
  }
  const auto found = xrcd->domain->targets.find(body.qpn);
  if (found == xrcd->domain->targets.end()) {
    return Error{EINVAL, "the XRC domain has no receiving queue pair " + std::to_string(body.qpn)};
  }
  const std::vector<XrcTarget::Handle>& handles = found->second->handles;
  if (handles.size() >= kXrcHandlesMax) {
    return Error{ENOMEM, "queue pair " + std::to_string(body.qpn) + " has been opened " +
                             std::to_string(kXrcHandlesMax) + " times, no more"};
  }
  const XrcTarget::Handle& first = handles.front();
  abi::CreateQpReply answer{};
  answer.qpn = body.qpn;
  answer.worker = found->second->qp->config().worker;
  answer.handle = hold(session, first.session->qps.find(first.handle)->target, *xrcd, body.cookie);
  reply->set(answer);
  return Outcome::kReply;
}

// The queue pair goes with its last handle.
void release_xrc_target(Session& session, std::uint32_t handle, QpObject& object) {
  XrcTarget& target = *object.target;
  --object.xrcd->users;
  std::erase_if(target.handles, [&](const XrcTarget::Handle& held) {
    return held.session == &session && held.handle == handle;
  });
  Card& card = session.card();
  const std::uint32_t qpn = target.qp->config().qpn;
  if (!target.handles.empty()) {
    card.qpns.set_owner(qpn, {target.handles.front().session, target.handles.front().handle});
    return;
  }
  card.engine().call(target.qp->config().worker,
                     [&](Worker& worker) { worker.remove_qp(*target.qp); });
  target.domain->targets.erase(qpn);
  card.qpns.release(qpn);
}

void for_each_holder(QpObject& object, const std::function<void(Session&, QpObject&)>& visit) {
  for (const XrcTarget::Handle& held : object.target->handles) {
    visit(*held.session, *held.session->qps.find(held.handle));
  }
}

void enter_xrc_domain(Card& card, const SrqObject& srq) {
  std::vector<XrcDomain>& seen = srq.xrcd->domain->seen;
  for (std::uint32_t worker = 0; worker < seen.size(); ++worker) {
    card.engine().call(worker, [&](Worker&) {
      seen[worker].add({.number = srq.id,
                        .pd = srq.pd->id,
                        .queue = srq.queue.get(),
                        .completions = srq.cq->queue.get()});
    });
  }
}

void leave_xrc_domain(Card& card, const SrqObject& srq) {
  SharedXrcDomain& domain = *srq.xrcd->domain;
  for (std::uint32_t worker = 0; worker < domain.seen.size(); ++worker) {
    card.engine().call(worker, [&](Worker&) {
      for (const auto& entry : domain.targets) {
        if (entry.second->qp->config().worker == worker) {
          entry.second->qp->forget_srq(srq.id);
        }
      }
      domain.seen[worker].remove(srq.id);
    });
  }
}

}  // namespace uroce::control
