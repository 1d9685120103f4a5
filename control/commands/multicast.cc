// Commands that attach datagram queue pairs to multicast groups.

#include <algorithm>
#include <cerrno>

#include "control/commands/command_table.h"

namespace uroce::control {
namespace {

struct Membership {
  QpObject* object = nullptr;
  Gid group;
};

Result<Membership> find(const Session& session, const abi::MulticastRequest& body) {
  const auto object = session.qps.get(body.handle);
  if (!object) {
    return object.error();
  }
  Membership wanted{.object = *object, .group = {}};
  if (wanted.object->qp->config().type != QpType::kUd) {
    return Error{EINVAL, "only queue pairs of type UD can be in multicast groups"};
  }
  std::copy(std::begin(body.gid), std::end(body.gid), wanted.group.bytes.begin());
  if (!is_multicast(wanted.group)) {
    return Error{EINVAL, to_string(wanted.group) + " isn't a multicast address"};
  }
  return wanted;
}

}  // namespace

Result<Outcome> attach_multicast(Session& session, Request& request, Reply* /*reply*/) {
  const auto wanted = find(session, request.as<abi::MulticastRequest>());
  if (!wanted) {
    return wanted.error();
  }
  QpObject& object = *wanted->object;
  const Gid& group = wanted->group;
  if (object.groups.contains(group)) {
    return Outcome::kReply;  // attached already: succeeds, as in Linux
  }
  const Status status = session.card().groups().attach(object, *session.account(), group);
  return status ? Result<Outcome>(Outcome::kReply) : status.error();
}

Result<Outcome> detach_multicast(Session& session, Request& request, Reply* /*reply*/) {
  const auto wanted = find(session, request.as<abi::MulticastRequest>());
  if (!wanted) {
    return wanted.error();
  }
  if (!wanted->object->groups.contains(wanted->group)) {
    return Error{EINVAL, "the queue pair isn't in group " + to_string(wanted->group)};
  }
  session.card().groups().detach(*wanted->object, wanted->group);
  return Outcome::kReply;
}

}  // namespace uroce::control
