// Commands that report an id's addresses, and the attributes for bringing up its queue pair.

#include <arpa/inet.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>

#include "abi/verbs_mask.h"
#include "control/cm_user/address_vector.h"
#include "control/cm_user/service.h"
#include "control/cm_user/ucm_commands.h"
#include "dataplane/wire/limits.h"

namespace uroce::control::cm_user {
namespace {

using enum abi::VerbsMask;

bool route_is_known(const Id& id) {
  return id.device != nullptr && id.state >= IdState::kRouteResolved;
}

template <typename Address>
std::uint16_t store(const Endpoint& endpoint, Address* to) {
  return static_cast<std::uint16_t>(
      store_sockaddr(endpoint, std::as_writable_bytes(std::span(to, 1))));
}

void store_gid(const Endpoint& endpoint, __kernel_sockaddr_storage* to) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_pkey = htons(kPkeyDefault);
  std::memcpy(address.sib_addr.sib_raw, endpoint.address.bytes.data(),
              sizeof(address.sib_addr.sib_raw));
  std::memcpy(to, &address, sizeof(address));
}

void answer_addresses(const Id& id, bool as_gids, Call* call) {
  rdma_ucm_query_addr_resp answer{};
  if (as_gids) {
    store_gid(id.source, &answer.src_addr);
    store_gid(id.destination, &answer.dst_addr);
    answer.src_size = answer.dst_size = sizeof(sockaddr_ib);
  } else {
    answer.src_size = store(id.source, &answer.src_addr);
    answer.dst_size = store(id.destination, &answer.dst_addr);
  }
  if (id.device != nullptr) {
    answer.node_guid = id.device->record().node_guid;
    answer.ibdev_index = id.device->instance();
    answer.port_num = 1;
    answer.pkey = kPkeyDefault;
  }
  call->answer(answer);
}

// A path record of the subnet administration (IBTA vol. 1, 15.2.5.16), with the fields that RoCE
// uses.
struct PathRecord {
  std::uint8_t service_id[8];
  std::uint8_t dgid[16], sgid[16];
  std::uint16_t dlid, slid;
  std::uint32_t flow_label_and_hop_limit;
  std::uint8_t traffic_class, reversible_and_count;
  std::uint16_t pkey, service_level;
  std::uint8_t mtu, rate, packet_life_time, preference;
  std::uint8_t reserved[6];
};
static_assert(sizeof(PathRecord) == sizeof(ib_path_rec_data::path_rec));

void answer_path(const Id& id, Call* call) {
  struct {
    std::uint32_t count, reserved;  // rdma_ucm_query_path_resp
    ib_path_rec_data path;
  } answer{};
  static_assert(offsetof(rdma_ucm_query_path_resp, path_data) == 2 * sizeof(answer.count));
  if (route_is_known(id)) {
    const ib_user_path_rec path = path_record(id);
    const auto exactly = [](unsigned value) { return static_cast<std::uint8_t>(0x80U | value); };
    PathRecord record{};
    std::memcpy(record.dgid, path.dgid, sizeof(record.dgid));
    std::memcpy(record.sgid, path.sgid, sizeof(record.sgid));
    record.flow_label_and_hop_limit = htonl(path.hop_limit);
    record.traffic_class = path.traffic_class;
    record.reversible_and_count = 0x80U | 1U;
    record.pkey = path.pkey;
    record.service_level = htons(path.sl);
    record.mtu = exactly(path.mtu);
    record.rate = exactly(path.rate);
    record.packet_life_time = exactly(path.packet_life_time);
    answer.count = 1;
    answer.path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    std::memcpy(answer.path.path_rec, &record, sizeof(record));
  }
  call->answer(answer);
}

// Before the protocol has a connection, and always for datagrams.
void fill_first_state(const Id& id, ib_uverbs_qp_attr* to) {
  to->qp_attr_mask = kVerbsState | kVerbsPkeyIndex | kVerbsPort;
  if (id.is_datagram()) {
    to->qp_attr_mask |= kVerbsQkey;
    to->qkey = kUdpQkey;
  } else {
    to->qp_attr_mask |= kVerbsAccessFlags;
  }
}

// Attributes of acknowledged transports; invalid for a UC queue pair.
constexpr std::uint32_t kAcknowledging = kVerbsMaxDestRdAtomic | kVerbsMinRnrTimer | kVerbsTimeout |
                                         kVerbsRetryCnt | kVerbsRnrRetry | kVerbsMaxRdAtomic;

void fill(const Id& id, const cm::QpAttributes& from, cm::QpState state, ib_uverbs_qp_attr* to) {
  switch (state) {
    case cm::QpState::kInit:
      to->qp_attr_mask = kVerbsState | kVerbsPkeyIndex | kVerbsPort | kVerbsAccessFlags;
      to->qp_access_flags =
          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      return;
    case cm::QpState::kRtr:
      to->qp_attr_mask = kVerbsState | kVerbsAv | kVerbsPathMtu | kVerbsDestQpn | kVerbsRqPsn |
                         kVerbsMaxDestRdAtomic | kVerbsMinRnrTimer;
      to->ah_attr = address_vector(id, from.route.remote);
      to->ah_attr.grh.flow_label = from.route.flow_label;
      to->path_mtu = from.path_mtu;
      to->dest_qp_num = from.dest_qpn;
      to->rq_psn = from.rq_psn;
      to->max_dest_rd_atomic = from.max_dest_rd_atomic;
      to->min_rnr_timer =
          from.rnr_retry_count_peer == kRnrRetriesInfinite ? kMinRnrTimer : kMinRnrTimerCounted;
      return;
    case cm::QpState::kRts:
      to->qp_attr_mask = kVerbsState | kVerbsSqPsn | kVerbsTimeout | kVerbsRetryCnt |
                         kVerbsRnrRetry | kVerbsMaxRdAtomic;
      to->sq_psn = from.sq_psn;
      to->timeout = id.ack_timeout.value_or(from.timeout);
      to->retry_cnt = from.retry_cnt;
      to->rnr_retry = from.rnr_retry;
      to->max_rd_atomic = from.max_rd_atomic;
      return;
  }
}

Result<cm::QpState> state_of(std::uint32_t verbs_state) {
  switch (verbs_state) {
    case IBV_QPS_INIT:
      return cm::QpState::kInit;
    case IBV_QPS_RTR:
      return cm::QpState::kRtr;
    case IBV_QPS_RTS:
      return cm::QpState::kRts;
    default:
      return Error{EINVAL, "rdma_init_qp_attr knows INIT, RTR and RTS"};
  }
}

}  // namespace

Status query_route(User& /*user*/, Id& id, Call& call) {
  rdma_ucm_query_route_resp answer{};
  store(id.source, &answer.src_addr);
  store(id.destination, &answer.dst_addr);
  if (id.device != nullptr) {
    answer.node_guid = id.device->record().node_guid;
    answer.ibdev_index = id.device->instance();
    answer.port_num = 1;
    answer.num_paths = route_is_known(id) ? 1 : 0;
    answer.ib_route[0] = path_record(id);
  }
  call.answer(answer);
  return ok();
}

Status query(User& /*user*/, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_query>();
  switch (body.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      answer_addresses(id, false, &call);
      return ok();
    case RDMA_USER_CM_QUERY_GID:
      answer_addresses(id, true, &call);
      return ok();
    case RDMA_USER_CM_QUERY_PATH:
      answer_path(id, &call);
      return ok();
    default:
      return Error{ENOSYS, "there is no query " + std::to_string(body.option)};
  }
}

Status init_qp_attr(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_init_qp_attr>();
  if (id.device == nullptr) {
    return wrong_state(id, "rdma_init_qp_attr");
  }
  ib_uverbs_qp_attr answer{};
  answer.qp_state = body.qp_state;
  answer.port_num = 1;
  if (id.is_datagram() || !id.connection) {
    if (!id.is_datagram() && body.qp_state != IBV_QPS_INIT) {
      return wrong_state(id, "rdma_init_qp_attr");
    }
    fill_first_state(id, &answer);
    call.answer(answer);
    return ok();
  }
  const auto state = state_of(body.qp_state);
  if (!state) {
    return state.error();
  }
  const auto attributes = user.service().manager().qp_attributes(*id.connection, *state);
  if (!attributes) {
    return attributes.error();
  }
  fill(id, *attributes, *state, &answer);
  if (attributes->transport == cm::Transport::kUc) {
    answer.qp_attr_mask &= ~kAcknowledging;
  }
  call.answer(answer);
  return ok();
}

}  // namespace uroce::control::cm_user
