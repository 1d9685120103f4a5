#pragma once

// From what the connection manager says to the events that a program reads from its channel.

#include "control/cm/events.h"
#include "control/cm_user/id.h"

namespace uroce::control::cm_user {

class Service;

// enum rdma_cm_event_type of librdmacm.
enum class EventNumber : std::uint32_t {
  kAddrResolved,
  kAddrError,
  kRouteResolved,
  kRouteError,
  kConnectRequest,
  kConnectResponse,
  kConnectError,
  kUnreachable,
  kRejected,
  kEstablished,
  kDisconnected,
  kDeviceRemoval,
  kMulticastJoin,
  kMulticastError,
  kAddrChange,
  kTimewaitExit,
  kAddrinfoResolved,
  kAddrinfoError,
  kUser,      // what a program writes itself
  kInternal,  // what librdmacm writes, to take it out again: a name was looked up by another thread
};

// Events of connections that no id knows (any more) are ignored.
void deliver(Service& service, const cm::Event& event);

// The outcome of rdma_resolve_addr. `error` is an errno value.
void report_resolved(Id& id);
void report_unresolved(Id& id, int error);
// An event without parameters.
void report(Id& id, EventNumber event, int status = 0);
// What the program has written, with a number of its own. REQUIRES: kUser or kInternal.
void report_written(Id& id, EventNumber event, std::uint32_t status,
                    const std::uint32_t (&argument)[2]);
// rdma_join_multicast was done: how to send to the group.
void report_joined(Id& id, Membership& membership);

}  // namespace uroce::control::cm_user
