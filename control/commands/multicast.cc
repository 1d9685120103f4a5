// Commands that attach datagram queue pairs to multicast groups.

#include <algorithm>
#include <cerrno>

#include "control/commands/command_table.h"

namespace uroce::control {
namespace {

// All workers learn of every member: any of them may receive for the group.
template <typename Change>
void tell_workers(Card& card, const Change& change) {
  for (std::uint32_t worker = 0; worker < card.engine().workers(); ++worker) {
    card.engine().call(worker, change);
  }
}

struct Membership {
  QpObject* object = nullptr;
  Gid group;
};

Result<Membership> find(const Session& session, const abi::MulticastRequest& body) {
  Membership wanted{.object = session.qps.find(body.handle), .group = {}};
  if (wanted.object == nullptr) {
    return no_such("queue pair", body.handle);
  }
  if (wanted.object->qp->config().type != QpType::kUd) {
    return Error{EINVAL, "only queue pairs of type UD can be in multicast groups"};
  }
  std::copy(std::begin(body.gid), std::end(body.gid), wanted.group.bytes.begin());
  if (!is_multicast(wanted.group)) {
    return Error{EINVAL, to_string(wanted.group) + " isn't a multicast address"};
  }
  return wanted;
}

Status check_room(const Card& card, const QpObject& object, const GroupKey& key) {
  if (object.groups.size() >= kGroupsOfQpMax) {
    return Error{ENOMEM, "a queue pair is in at most " + std::to_string(kGroupsOfQpMax) +
                             " multicast groups"};
  }
  const auto found = card.groups.find(key);
  if (found == card.groups.end() && card.groups.size() >= kGroupsMax) {
    return Error{ENOMEM, "all " + std::to_string(kGroupsMax) + " multicast groups are taken"};
  }
  if (found != card.groups.end() && found->second >= kGroupMembersMax) {
    return Error{ENOMEM, "a multicast group has at most " + std::to_string(kGroupMembersMax) +
                             " queue pairs here"};
  }
  return ok();
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
    return Outcome::kReply;  // as in Linux
  }
  Card& card = session.card();
  const QpConfig& qp = object.qp->config();
  if (Status status = check_room(card, object, {qp.port, group}); !status) {
    return status.error();
  }
  object.groups.insert(group);
  ++card.groups[{qp.port, group}];
  tell_workers(card, [&](Worker& worker) { worker.attach(qp.port, group, qp.qpn); });
  return Outcome::kReply;
}

Result<Outcome> detach_multicast(Session& session, Request& request, Reply* /*reply*/) {
  const auto wanted = find(session, request.as<abi::MulticastRequest>());
  if (!wanted) {
    return wanted.error();
  }
  if (!wanted->object->groups.contains(wanted->group)) {
    return Error{EINVAL, "the queue pair isn't in group " + to_string(wanted->group)};
  }
  leave_group(session.card(), *wanted->object, wanted->group);
  return Outcome::kReply;
}

void leave_group(Card& card, QpObject& object, const Gid& group) {
  const QpConfig& qp = object.qp->config();
  tell_workers(card, [&](Worker& worker) { worker.detach(qp.port, group, qp.qpn); });
  const auto found = card.groups.find({qp.port, group});
  if (--found->second == 0) {
    card.groups.erase(found);
  }
  object.groups.erase(group);
}

}  // namespace uroce::control
