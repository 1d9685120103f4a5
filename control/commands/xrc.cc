// Commands about XRC: domains and their receiving queue pairs.

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "abi/cq_records.h"
#include "control/commands/command_table.h"
#include "control/commands/destroy.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"
#include "control/sessions/xrc.h"

namespace uroce::control {
namespace {

Result<XrcFile> identify(const Session& session, const UniqueFd& file) {
  if (!file.valid()) {
    return Error{EOPNOTSUPP,
                 "the XRC domain's file is of a kind that the daemon might wait for (FUSE, a "
                 "network, a mount of the program's own); it takes those on tmpfs and disks"};
  }
  // Opening one of those requires no right to the file, and it would let anybody into the domain.
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) {
    return Error{EBADF,
                 "the XRC domain's file was opened with O_PATH, which anybody may do: the daemon "
                 "takes descriptors of whoever may read or write the file"};
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    return system_error("the XRC domain's file can't be looked at");
  }
  return XrcFile{
      .device = session.device()->index(), .file_system = status.st_dev, .inode = status.st_ino};
}

// As in Linux: without O_CREAT the domain must exist (EAGAIN), and with O_EXCL it must not.
Result<std::shared_ptr<SharedXrcDomain>> open_domain(Session& session, std::uint32_t flags,
                                                     Request& request) {
  XrcDomains& domains = session.card().xrc_domains();
  const bool creates = (flags & abi::kXrcdCreate) != 0;
  if (request.descriptors.empty()) {
    if (!creates) {
      return Error{EAGAIN, "without a file there is no XRC domain to find: O_CREAT makes one"};
    }
    return domains.make();
  }
  const auto file = identify(session, request.descriptors.front());
  if (!file) {
    return file.error();
  }
  if (auto domain = domains.find(*file)) {
    if ((flags & abi::kXrcdExclusive) != 0) {
      return Error{EINVAL, "the file has an XRC domain already, and O_EXCL wants a new one"};
    }
    return domain;
  }
  if (!creates) {
    return Error{EAGAIN, "the file has no XRC domain; O_CREAT makes one"};
  }
  auto charge = session.account()->charge({{Limit::kXrcDomains}, {Limit::kDescriptors}});
  if (!charge) {
    return charge.error();
  }
  return domains.make(*file, std::move(request.descriptors.front()), std::move(*charge));
}

}  // namespace

Result<Outcome> open_xrcd(Session& session, Request& request, Reply* reply) {
  const std::uint32_t flags = request.as<abi::OpenXrcdRequest>().flags;
  auto charge = session.account()->charge(Limit::kXrcds);
  if (!charge) {
    return charge.error();
  }
  auto domain = open_domain(session, flags, request);
  if (!domain) {
    return domain.error();
  }
  auto xrcd = std::make_unique<Xrcd>();
  xrcd->domain = std::move(*domain);
  xrcd->charge = std::move(*charge);
  reply->set_handle(session.xrcds.add(std::move(xrcd)));
  return Outcome::kReply;
}

Result<Outcome> close_xrcd(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.xrcds, request, remove_xrcd);
}

Result<Outcome> create_xrc_target(Session& session, const abi::CreateQpRequest& body,
                                  Reply* reply) {
  const auto xrcd = session.xrcds.get(body.xrcd);
  if (!xrcd) {
    return xrcd.error();
  }
  Card& card = session.card();
  auto charge = session.account()->charge(Limit::kQps);
  if (!charge) {
    return charge.error();
  }
  abi::CreateQpReply answer{};
  auto target = std::make_shared<XrcTarget>();
  target->qpn = card.qpns().take({&session, 0});
  if (!target->qpn) {
    return Error{ENOMEM, "all " + std::to_string(kQpsMax) + " queue pairs are taken"};
  }
  answer.qpn = target->qpn.number();
  answer.worker = card.engine().owner_of(answer.qpn);
  QpConfig config;
  config.qpn = answer.qpn;
  config.type = QpType::kXrcRecv;
  config.port = static_cast<std::uint16_t>(session.device()->index());
  config.worker = answer.worker;
  config.xrc_domain = &(*xrcd)->domain->seen[answer.worker];
  config.congestion = &card.congestion();
  config.shares_network =
      config.congestion->mode != CongestionMode::kNone && !session.device()->loops_back();
  target->domain = (*xrcd)->domain;
  target->qp = std::make_shared<Qp>(config);
  target->domain->targets[answer.qpn] = target.get();
  auto object = make_handle(session, target, **xrcd, body.cookie, std::move(*charge));
  card.engine().call(answer.worker, [&](Worker& worker) { worker.add_qp(*target->qp); });
  answer.handle = add_handle(session, std::move(object));
  card.qpns().set_owner(answer.qpn, {&session, answer.handle});
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> open_qp(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::OpenQpRequest>();
  const auto xrcd = session.xrcds.get(body.xrcd);
  if (!xrcd) {
    return xrcd.error();
  }
  const auto found = (*xrcd)->domain->targets.find(body.qpn);
  if (found == (*xrcd)->domain->targets.end()) {
    return Error{EINVAL, "the XRC domain has no receiving queue pair " + std::to_string(body.qpn)};
  }
  const std::vector<XrcTarget::Handle>& handles = found->second->handles;
  if (handles.size() >= kXrcHandlesMax) {
    return Error{ENOMEM, "queue pair " + std::to_string(body.qpn) + " has been opened " +
                             std::to_string(kXrcHandlesMax) + " times, no more"};
  }
  auto charge = session.account()->charge(Limit::kQps);
  if (!charge) {
    return charge.error();
  }
  const XrcTarget::Handle& first = handles.front();
  abi::CreateQpReply answer{};
  answer.qpn = body.qpn;
  answer.worker = found->second->qp->config().worker;
  answer.handle =
      add_handle(session, make_handle(session, first.session->qps.find(first.handle)->target,
                                      **xrcd, body.cookie, std::move(*charge)));
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace uroce::control
