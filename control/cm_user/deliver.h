#pragma once

// Translates the connection manager's events into those that a program reads from its channel.

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
  kUser,      // RDMA_CM_EVENT_USER: written by the program itself
  kInternal,  // written and removed by librdmacm: another of its threads has resolved a name
};

// Events of connections without an id (any more) are ignored.
void deliver(Service& service, const cm::Event& event);

// The outcome of rdma_resolve_addr. `error` is an errno value.
void report_resolved(Id& id);
void report_unresolved(Id& id, int error);
// An event without parameters.
void report(Id& id, EventNumber event, int status = 0);
// An event written by the program, with a number of its choice. REQUIRES: kUser or kInternal.
void report_written(Id& id, EventNumber event, std::uint32_t status,
                    const std::uint32_t (&argument)[2]);
// rdma_join_multicast has finished: reports the group's address vector.
void report_joined(Id& id, Membership& membership);

}  // namespace uroce::control::cm_user
