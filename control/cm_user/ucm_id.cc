// Commands about ids and their events.

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <string>

#include "control/cm_user/deliver.h"
#include "control/cm_user/service.h"
#include "control/cm_user/ucm_commands.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm_user {
namespace {

bool is_port_space(std::uint16_t number) {
  using enum cm::PortSpace;
  for (const cm::PortSpace space : {kIpoib, kTcp, kUdp, kIb}) {
    if (number == static_cast<std::uint16_t>(space)) {
      return true;
    }
  }
  return false;
}

// The queue pair type follows from the port space, except for the one that allows both.
std::uint8_t qp_type_of(cm::PortSpace space, std::uint8_t asked) {
  switch (space) {
    case cm::PortSpace::kTcp:
      return IBV_QPT_RC;
    case cm::PortSpace::kUdp:
    case cm::PortSpace::kIpoib:
      return IBV_QPT_UD;
    case cm::PortSpace::kIb:
      break;
  }
  return asked;
}

template <typename Value>
Result<Value> option_value(const Call& call) {
  if (call.option.size() != sizeof(Value)) {
    return Error{EINVAL, "the option has " + std::to_string(sizeof(Value)) + " bytes"};
  }
  Value value{};
  std::memcpy(&value, call.option.data(), sizeof(value));
  return value;
}

// As in Linux: a program asks for it whenever the id doesn't listen, and takes it back before it
// binds.
Status set_reuse_address(Id& id, bool reuse) {
  const bool permitted = reuse ? id.state != IdState::kListening : id.state == IdState::kIdle;
  if (!permitted) {
    return wrong_state(id, "rdma_set_option(RDMA_OPTION_ID_REUSEADDR)");
  }
  id.reuse_address = reuse;
  if (id.has_port) {  // later claims and listening see it
    id.user->service().ports().allow_reuse(id.space, id.serial, id.source.port);
  }
  return ok();
}

// As in Linux, it also counts if it is set between binding and listening; but there a claim that
// grows isn't compared with others'.
Status set_family_only(Id& id, bool family_only) {
  if (id.state != IdState::kIdle && id.state != IdState::kBound) {
    return wrong_state(id, "rdma_set_option(RDMA_OPTION_ID_AFONLY)");
  }
  if (id.has_port) {
    PortTable& ports = id.user->service().ports();
    if (Status status = ports.set_family_only(id.space, id.serial, id.source.port, family_only);
        !status) {
      return status;
    }
  }
  id.family_only = family_only;
  return ok();
}

Status set_id_option(Id& id, std::uint32_t name, const Call& call) {
  if (name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY) {
    const auto value = option_value<int>(call);
    if (!value) {
      return value.error();
    }
    const bool set = *value != 0;
    return name == RDMA_OPTION_ID_REUSEADDR ? set_reuse_address(id, set) : set_family_only(id, set);
  }
  const auto value = option_value<std::uint8_t>(call);
  if (!value) {
    return value.error();
  }
  if (name == RDMA_OPTION_ID_TOS) {
    id.traffic_class = *value;
    id.service_level.reset();
    return ok();
  }
  if (name == RDMA_OPTION_ID_ACK_TIMEOUT) {
    if (*value > kTimerCodeMax) {
      return Error{EINVAL, "an ACK timeout is a code from 0 to 31"};
    }
    id.ack_timeout = *value;
    return ok();
  }
  return Error{ENOSYS, "there is no id option " + std::to_string(name)};
}

}  // namespace

bool Id::is_datagram() const { return qp_type == IBV_QPT_UD; }

cm::Transport Id::transport() const {
  switch (qp_type) {
    case IBV_QPT_UC:
      return cm::Transport::kUc;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return cm::Transport::kXrc;
    default:
      return cm::Transport::kRc;
  }
}

Status create_id(User& user, Call& call) {
  const auto body = call.as<rdma_ucm_create_id>();
  if (!is_port_space(body.ps)) {
    return Error{EINVAL, "there is no port space " + std::to_string(body.ps)};
  }
  const auto id = user.add_id(call.channel);
  if (!id) {
    return id.error();
  }
  (*id)->uid = body.uid;
  (*id)->space = static_cast<cm::PortSpace>(body.ps);
  (*id)->qp_type = qp_type_of((*id)->space, body.qp_type);
  call.answer(rdma_ucm_create_id_resp{(*id)->handle});
  return ok();
}

Status destroy_id(User& user, Id& id, Call& call) {
  // librdmacm waits until this many events are acknowledged; events not fetched are subtracted.
  call.answer(rdma_ucm_destroy_id_resp{id.events_reported});
  user.destroy(id);
  return ok();
}

Status migrate_id(User& user, Call& call) {
  if (call.other == nullptr) {
    return Error{EINVAL, "rdma_migrate_id: the id's channel isn't one of this program's"};
  }
  const auto found = find_id(user, *call.other, call.as<rdma_ucm_migrate_id>().id);
  if (!found) {
    return found.error();
  }
  Id& id = **found;
  --id.channel->ids;
  ++call.channel.ids;
  id.channel = &call.channel;
  if (call.other != &call.channel) {
    auto events = call.other->take_if([&](const UserEvent& event) { return event.id == &id; });
    while (!events.empty()) {
      const auto event = call.channel.adopt(events.extract(events.begin()));
      // The ids created by its connect requests report to the same channel.
      if (Id* const fresh = event->fresh; fresh != nullptr) {
        --fresh->channel->ids;
        ++call.channel.ids;
        fresh->channel = &call.channel;
        fresh->request = event;
      }
    }
  }
  call.answer(rdma_ucm_migrate_resp{id.events_reported});
  return ok();
}

Status get_event(User& user, Call& call) {
  if (call.channel.empty()) {
    return ok();  // no output: the channel is empty
  }
  const UserEvent event = call.channel.pop();
  ++event.id->events_reported;
  call.event_id = event.id->handle + 1;
  if (event.membership != nullptr) {
    ++event.membership->events_reported;
    call.event_membership = event.membership->handle + 1;
  }
  if (event.fresh != nullptr) {
    --event.id->requests_waiting;
    event.fresh->unfetched = false;
    event.fresh->request.reset();
  }
  if (is_written(event.record.event)) {
    user.remove_written(*event.id);
  }
  if (event.record.event == static_cast<std::uint32_t>(EventNumber::kAddrError)) {
    event.id->address_error_waits = false;
  }
  call.answer(event.record);
  return ok();
}

Status set_option(User& /*user*/, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_set_option>();
  if (body.level != RDMA_OPTION_ID) {
    return Error{ENOSYS, "RoCE has no options of level " + std::to_string(body.level)};
  }
  return set_id_option(id, body.optname, call);
}

// The program forwards an asynchronous event of its queue pair. IBV_EVENT_COMM_EST (data before the
// RTU) establishes the connection; other events are ignored.
Status notify(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_notify>();
  if (body.event == IBV_EVENT_COMM_EST && id.state == IdState::kAccepted) {
    return user.service().manager().established(*id.connection, user.service().now());
  }
  return ok();
}

}  // namespace uroce::control::cm_user
