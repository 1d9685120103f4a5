#include "control/cm_user/user.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <new>
#include <string>

#include "base/sockets/event_socket.h"
#include "control/cm_user/service.h"

namespace uroce::control::cm_user {

User::~User() {
  channels_.for_each(
      [](std::uint32_t /*handle*/, EventChannel& channel) { channel.forget_events(); });
  ids_.for_each([&](std::uint32_t /*handle*/, Id& id) { destroy(id); });
  service_.pump();
}

Result<User::OpenedChannel> User::open_channel() {
  auto charge = account_->charge({{Limit::kCmChannels}, {Limit::kDescriptors}});
  if (!charge) {
    return charge.error();
  }
  auto socket = make_event_socket("an event channel");
  if (!socket) {
    return socket.error();
  }
  OpenedChannel opened;
  opened.read_end = std::move(socket->read_end);
  opened.handle = channels_.add(
      std::make_unique<EventChannel>(std::move(socket->write_end), std::move(*charge)));
  return Result<OpenedChannel>(std::move(opened));
}

Status User::close_channel(std::uint32_t handle) {
  const auto found = channels_.get(handle);
  if (!found) {
    return found.error();
  }
  EventChannel* const channel = *found;
  channel->forget_events();
  if (channel->ids != 0) {
    ids_.for_each([&](std::uint32_t /*handle*/, Id& id) {
      if (id.channel == channel) {
        destroy(id);
      }
    });
    service_.pump();
  }
  channels_.remove(handle);
  return ok();
}

Result<Id*> User::add_id(EventChannel& channel) {
  if (ids_.count() >= kIdsMax) {
    return Error{ENOMEM, "a program has at most " + std::to_string(kIdsMax) + " ids"};
  }
  auto charge = account_->charge(Limit::kCmIds);
  if (!charge) {
    return charge.error();
  }
  auto id = std::make_unique<Id>();
  Id* added = id.get();
  added->charge = std::move(*charge);
  added->user = this;
  added->channel = &channel;
  added->handle = ids_.add(std::move(id));
  ++channel.ids;
  service_.enter(added);
  return added;
}

Result<Id*> User::add_requested(Id& listening, const cm::Event& event, const cm::IpHeader& header) {
  auto charge = account_->charge(Limit::kConnections);
  if (!charge) {
    return charge.error();
  }
  auto added = add_id(*listening.channel);
  if (!added) {
    return added;
  }
  Id& id = **added;
  id.connection_charge = std::move(*charge);
  id.space = listening.space;
  id.qp_type = listening.qp_type;
  id.traffic_class = listening.traffic_class;
  if (id.traffic_class == 0 && event.request) {
    // As Linux does: the peer's traffic class is used for our packets too.
    id.traffic_class = event.request->primary.traffic_class;
    id.service_level = event.request->primary.service_level;
  }
  id.state = IdState::kRequested;
  id.source = endpoint_of(header.destination, listening.source.port);
  id.destination = endpoint_of(header.source, header.source_port);
  id.device = &service_.devices()[event.route.device];
  id.connection = event.connection;
  return added;
}

void User::log_refused_request(const Id& listening, const Error& error) const {
  const std::string text = "a connection request to port " + std::to_string(listening.source.port) +
                           " was refused: " + error.message;
  note_(text);
  if (service_.may_log_refusal()) {
    spdlog::warn("process {}: {}", peer_.pid, text);
  }
}

// A channel may hold 100,000 events, so it is walked once, also for an id with thousands of groups
// or requests.
void User::destroy(Id& id) noexcept {
  const auto events = id.channel->take_if([&](const UserEvent& event) { return event.id == &id; });
  if (id.memberships != 0) {
    memberships_.for_each([&](std::uint32_t handle, Membership& membership) {
      if (membership.id == &id) {
        leave_group(handle);
      }
    });
  }
  for (const UserEvent& event : events) {
    if (event.fresh != nullptr) {
      remove(*event.fresh);  // the program hasn't fetched it: it has no other event, and no group
    }
  }
  remove(id);
}

void User::withdraw(Id& id) noexcept {
  if (id.request) {
    --(*id.request)->id->requests_waiting;
    id.channel->remove(*id.request);
  }
  remove(id);
}

// REQUIRES: it is in no group, and its channel has no event of it.
void User::remove(Id& id) noexcept {
  if (id.listener) {
    service_.manager().stop_listening(*id.listener, service_.now());
  }
  if (id.connection) {
    service_.manager().destroy(*id.connection, service_.now());
  }
  if (id.has_port) {
    service_.ports().release(id.space, id.serial, id.source.port);
  }
  service_.leave(id);
  --id.channel->ids;
  written_events_ -= id.written_events;
  ids_.remove(id.handle);
}

Status User::add_written(Id& id) {
  if (id.written_events == kWrittenEventsMax || written_events_ == kWrittenEventsOfProgramMax) {
    return Error{ENOMEM, "of the events that the program wrote " +
                             std::to_string(id.written_events) + " of this id and " +
                             std::to_string(written_events_) +
                             " in all haven't been fetched (rdma_get_cm_event): no more than " +
                             std::to_string(kWrittenEventsMax) + " and " +
                             std::to_string(kWrittenEventsOfProgramMax) + " may wait"};
  }
  ++id.written_events;
  ++written_events_;
  return ok();
}

void User::remove_written(Id& id) {
  --id.written_events;
  --written_events_;
}

Result<Membership*> User::add_membership(Id& id, std::uint64_t uid, const Gid& group,
                                         std::uint32_t* handle) {
  if (memberships_.count() >= kMembershipsMax) {
    return Error{
        ENOMEM, "a program joins at most " + std::to_string(kMembershipsMax) + " multicast groups"};
  }
  auto charge = account_->charge(Limit::kMemberships);
  if (!charge) {
    return charge.error();
  }
  auto membership = std::make_unique<Membership>();
  membership->device = id.device;
  memberships_.make_room();  // once the group is joined nothing may fail
  if (Status status = service_.joined_groups().use(*account_, {id.device, group}); !status) {
    return status.error();
  }
  Status joined = ok();
  try {
    joined = id.device->join_group(group);
  } catch (const std::bad_alloc&) {
    joined = Error{ENOMEM, "no memory for another multicast group"};
  }
  if (!joined) {
    service_.joined_groups().leave(account_->number(), {id.device, group});
    return joined.error();
  }
  Membership* added = membership.get();
  added->charge = std::move(*charge);
  added->id = &id;
  added->uid = uid;
  added->group = group;
  added->handle = *handle = memberships_.add(std::move(membership));
  ++id.memberships;
  return added;
}

void User::remove_membership(std::uint32_t handle) noexcept {
  const std::unique_ptr<Membership> membership = leave_group(handle);
  membership->id->channel->take_if(
      [&](const UserEvent& event) { return event.membership == membership.get(); });
}

// Its event, if there is one, stays in the channel.
std::unique_ptr<Membership> User::leave_group(std::uint32_t handle) noexcept {
  std::unique_ptr<Membership> membership = memberships_.remove(handle);
  --membership->id->memberships;
  membership->device->leave_group(membership->group);
  service_.joined_groups().leave(account_->number(), {membership->device, membership->group});
  return membership;
}

}  // namespace uroce::control::cm_user
