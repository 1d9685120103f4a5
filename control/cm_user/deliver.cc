#include "control/cm_user/deliver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/cm_user/address_vector.h"
#include "control/cm_user/service.h"
#include "control/cm_user/user.h"
#include "dataplane/wire/headers.h"

namespace uroce::control::cm_user {
namespace {

rdma_ucm_event_resp record_of(const Id& id, EventNumber event, int status) {
  rdma_ucm_event_resp record{};
  record.uid = id.uid;
  record.id = id.handle;
  record.event = static_cast<std::uint32_t>(event);
  record.status = static_cast<std::uint32_t>(status);
  return record;
}

rdma_ucm_ece record_of(const cm::Ece& ece) {
  return {.vendor_id = ece.vendor_id, .attr_mod = ece.options};
}

// Padded to the message's maximum: the true length isn't on the wire.
template <typename Parameters>
void copy_private(std::span<const std::byte> data, Parameters* to) {
  const std::size_t length = std::min(data.size(), sizeof(to->private_data) - 1);
  if (length != 0) {
    std::memcpy(to->private_data, data.data(), length);
  }
  to->private_data_len = static_cast<std::uint8_t>(length);
}

void push(Id& id, const rdma_ucm_event_resp& record) {
  // Until the program accepts a request it has no handle of the id and can't be notified; accepting
  // will fail.
  if (id.uid != 0) {
    id.channel->push({.id = &id, .membership = nullptr, .fresh = nullptr, .record = record});
  }
}

void report_with_data(Id& id, EventNumber event, int status, std::span<const std::byte> data) {
  rdma_ucm_event_resp record = record_of(id, event, status);
  if (id.is_datagram()) {
    copy_private(data, &record.param.ud);
  } else {
    copy_private(data, &record.param.conn);
  }
  push(id, record);
}

// A program can answer only requests of its listening id's kind: the queue pair follows from the
// id.
bool is_same_kind(const Id& listening, const cm::Event& request) {
  return request.request
             ? !listening.is_datagram() && request.request->transport == listening.transport()
             : listening.is_datagram();
}

// A REQ or SIDR_REQ: a new id in the listening id's channel.
void deliver_request(Service& service, Id& listening, const cm::Event& event) {
  const auto header = cm::parse_ip_header(event.private_data);
  if (!header || !is_same_kind(listening, event)) {
    // The request can't be delivered: a REJ or a refusing SIDR_REP is sent.
    service.manager().destroy(event.connection, service.now());
    return;
  }
  const auto added = listening.user->add_requested(listening, event, *header);
  if (!added) {
    service.manager().destroy(event.connection, service.now(), cm::RejectReason::kNoResources);
    listening.user->log_refused_request(listening, added.error());
    return;
  }
  Id* const fresh = *added;
  service.manager().set_cookie(event.connection, fresh->serial);
  rdma_ucm_event_resp record = record_of(listening, EventNumber::kConnectRequest, 0);
  record.id = fresh->handle;
  const auto data = std::span<const std::byte>(event.private_data).subspan(cm::kIpHeaderBytes);
  if (event.request) {
    const cm::Req& request = *event.request;
    rdma_ucm_conn_param& to = record.param.conn;
    copy_private(data, &to);
    to.qp_num = request.qpn;
    to.srq = request.srq ? 1 : 0;
    // The peer's initiator depth is our responder resources, and vice versa.
    to.responder_resources = request.initiator_depth;
    to.initiator_depth = request.responder_resources;
    to.flow_control = request.flow_control ? 1 : 0;
    to.retry_count = request.retry_count;
    to.rnr_retry_count = request.rnr_retry_count;
    record.ece = record_of(request.ece);
  } else {
    copy_private(data, &record.param.ud);
  }
  fresh->unfetched = true;
  // Should memory run out here, the id has no event, and ends with its request.
  fresh->request = listening.channel->push({.id = &listening,
                                            .membership = nullptr,
                                            .fresh = fresh,
                                            .round = event.earlier_from_sender,
                                            .record = record});
  ++listening.requests_waiting;
}

void deliver_reply(Id& id, const cm::Event& event) {
  id.state = IdState::kReplied;
  rdma_ucm_event_resp record = record_of(id, EventNumber::kConnectResponse, 0);
  rdma_ucm_conn_param& to = record.param.conn;
  copy_private(event.private_data, &to);
  to.qp_num = event.reply->qpn;
  to.srq = event.reply->srq ? 1 : 0;
  to.responder_resources = event.reply->initiator_depth;
  to.initiator_depth = event.reply->responder_resources;
  to.flow_control = event.reply->flow_control ? 1 : 0;
  to.rnr_retry_count = event.reply->rnr_retry_count;
  record.ece = record_of(event.reply->ece);
  push(id, record);
}

void deliver_service_reply(Id& id, const cm::Event& event) {
  if (event.service->status != cm::SidrStatus::kValid) {
    id.state = IdState::kEnded;
    report_with_data(id, EventNumber::kUnreachable, static_cast<int>(event.service->status),
                     event.private_data);
    return;
  }
  id.state = IdState::kConnected;
  rdma_ucm_event_resp record = record_of(id, EventNumber::kEstablished, 0);
  copy_private(event.private_data, &record.param.ud);
  record.param.ud.qp_num = event.service->qpn;
  record.param.ud.qkey = event.service->qkey;
  record.param.ud.ah_attr = address_vector(id, id.destination.address);
  push(id, record);
}

void end(Id& id, EventNumber event, int status, std::span<const std::byte> data) {
  id.state = IdState::kEnded;
  report_with_data(id, event, status, data);
}

// The sender of a request has given it up or withdrawn it. If the program has fetched it, it can't
// be accepted any more, and the program destroys its id. Others are removed with what they are
// charged for, since the backlog doesn't count them any more; except one that is a channel's last
// event: the channel is readable, so there must be something to fetch.
void end_request(Id& id) {
  const bool last = id.request && id.channel->holds_one();
  if (id.unfetched && !last) {
    id.user->withdraw(id);
  } else {
    id.state = IdState::kEnded;
  }
}

// Programs get the private data of requests, of their answers and of refusals only: RTU, DREQ and
// DREP carry none from programs.
void deliver_to(Id& id, const cm::Event& event) {
  switch (event.kind) {
    case cm::EventKind::kRequest:
    case cm::EventKind::kServiceRequest:
      return;  // reported at the listening id
    case cm::EventKind::kReply:
      return deliver_reply(id, event);
    case cm::EventKind::kEstablished:
      id.state = IdState::kConnected;
      return report(id, EventNumber::kEstablished);
    case cm::EventKind::kRejected:
      return id.unfetched ? end_request(id)
                          : end(id, EventNumber::kRejected, static_cast<int>(event.reason),
                                event.private_data);
    case cm::EventKind::kExpired:
      return end_request(id);
    case cm::EventKind::kUnreachable:
      return end(id, EventNumber::kUnreachable, -event.error, {});
    case cm::EventKind::kDisconnecting:
      id.state = IdState::kDisconnecting;
      return report(id, EventNumber::kDisconnected);
    case cm::EventKind::kDisconnected:
      return end(id, EventNumber::kDisconnected, event.timed_out ? -ETIMEDOUT : 0, {});
    case cm::EventKind::kTimewaitExit:
      return end(id, EventNumber::kTimewaitExit, 0, {});
    case cm::EventKind::kServiceReply:
      return deliver_service_reply(id, event);
  }
}

}  // namespace

void deliver(Service& service, const cm::Event& event) {
  Id* id = service.find(event.cookie);
  const bool request =
      event.kind == cm::EventKind::kRequest || event.kind == cm::EventKind::kServiceRequest;
  if (id != nullptr && request) {
    deliver_request(service, *id, event);
  } else if (id != nullptr && id->connection == event.connection) {
    deliver_to(*id, event);
  } else {
    // Its id is gone; or memory ran out while the request was delivered, so that the id is still
    // the listening one, whose program needn't hear of its end.
    service.manager().destroy(event.connection, service.now());
  }
}

void report(Id& id, EventNumber event, int status) { push(id, record_of(id, event, status)); }

void report_resolved(Id& id) {
  id.state = IdState::kAddressResolved;
  report(id, EventNumber::kAddrResolved);
}

void report_unresolved(Id& id, int error) {
  id.state = IdState::kBound;
  id.forget_chosen_source();
  id.address_error_waits = id.uid != 0;
  report(id, EventNumber::kAddrError, -error);
}

void report_written(Id& id, EventNumber event, std::uint32_t status,
                    const std::uint32_t (&argument)[2]) {
  rdma_ucm_event_resp record = record_of(id, event, static_cast<int>(status));
  // `argument` is missing in Debian 12's header: there the union starts with another member.
  std::memcpy(&record.param, argument, sizeof(argument));
  push(id, record);
}

void report_joined(Id& id, Membership& membership) {
  rdma_ucm_event_resp record = record_of(id, EventNumber::kMulticastJoin, 0);
  record.uid = membership.uid;
  record.param.ud.qp_num = kMulticastQpn;
  record.param.ud.qkey = kUdpQkey;
  record.param.ud.ah_attr = address_vector(id, membership.group);
  id.channel->push({.id = &id, .membership = &membership, .fresh = nullptr, .record = record});
}

}  // namespace uroce::control::cm_user
