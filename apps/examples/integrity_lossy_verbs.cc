#include "apps/examples/integrity_lossy_verbs.h"

#include <algorithm>
#include <cstring>

namespace integrity {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint8_t kHopLimit = 64;
constexpr int kRegionAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

LossyCard::LossyCard(const std::string& device, int gid_index, const LossyLimits& limits)
    : limits_(limits),
      context_(open_device(device)),
      pd_(ibv_alloc_pd(context_)),
      gid_index_(gid_index),
      endpoints_(limits.queue_pairs) {
  ibv_port_attr port{};
  if (pd_ == nullptr || ibv_query_port(context_, kPort, &port) != 0 ||
      ibv_query_gid(context_, kPort, gid_index, &gid_) != 0) {
    die("asking the device");
  }
  mtu_ = port.active_mtu;
  if (limits_.datagrams) {
    limits_.size_max = std::min(limits_.size_max, 128U << static_cast<unsigned>(mtu_));
  }
  const auto entries = static_cast<int>(limits.queue_pairs * (kLossyMessages + kLossySends));
  cq = ibv_create_cq(context_, entries, nullptr, nullptr, 0);
  if (cq == nullptr) {
    die("ibv_create_cq");
  }
  for (std::uint32_t qp = 0; qp < limits.queue_pairs; ++qp) {
    make_queue_pair(qp);
  }
}

LossyCard::~LossyCard() {
  for (LossyEndpoint& endpoint : endpoints_) {
    ibv_destroy_qp(endpoint.qp);
    if (endpoint.peer != nullptr) {
      ibv_destroy_ah(endpoint.peer);
    }
  }
  endpoints_.clear();
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

void LossyCard::make_queue_pair(std::uint32_t qp) {
  LossyEndpoint& endpoint = endpoints_[qp];
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap.max_send_wr = kLossySends;
  attr.cap.max_recv_wr = kLossyMessages;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.qp_type = limits_.datagrams ? IBV_QPT_UD : IBV_QPT_UC;
  attr.sq_sig_all = 1;
  endpoint.qp = ibv_create_qp(pd_, &attr);
  if (endpoint.qp == nullptr) {
    die("ibv_create_qp");
  }
  endpoint.source = std::make_unique<Arena>(pd_, kLossySends * stride(), 0, 8 * qp + 1);
  endpoint.receives =
      std::make_unique<Arena>(pd_, kLossyMessages * stride(), IBV_ACCESS_LOCAL_WRITE, 8 * qp + 3);
  endpoint.region =
      std::make_unique<Arena>(pd_, kLossyMessages * stride(), kRegionAccess, 8 * qp + 5);
  endpoint.mine = {.gid = gid_,
                   .region = reinterpret_cast<std::uintptr_t>(endpoint.region->data()),
                   .rkey = endpoint.region->mr()->rkey,
                   .qpn = endpoint.qp->qp_num,
                   .psn = 0xFFFFF0U + qp,
                   .mtu = static_cast<std::uint32_t>(mtu_)};
}

ibv_ah_attr LossyCard::route_to(const Address& peer) const {
  ibv_ah_attr route{};
  route.is_global = 1;
  route.port_num = kPort;
  route.grh.dgid = peer.gid;
  route.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
  route.grh.hop_limit = kHopLimit;
  return route;
}

void LossyCard::connect(std::uint32_t qp) {
  LossyEndpoint& endpoint = endpoints_[qp];
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qkey = kLossyQkey;
  attr.qp_access_flags = kRegionAccess;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  mask |= limits_.datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(endpoint.qp, &attr, mask) != 0) {
    die("ibv_modify_qp to INIT");
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(endpoint.mine.mtu, endpoint.theirs.mtu));
  attr.dest_qp_num = endpoint.theirs.qpn;
  attr.rq_psn = endpoint.theirs.psn;
  attr.ah_attr = route_to(endpoint.theirs);
  mask = limits_.datagrams
             ? IBV_QP_STATE
             : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (ibv_modify_qp(endpoint.qp, &attr, mask) != 0) {
    die("ibv_modify_qp to RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = endpoint.mine.psn;
  if (ibv_modify_qp(endpoint.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) != 0) {
    die("ibv_modify_qp to RTS");
  }
  if (limits_.datagrams) {
    endpoint.peer = ibv_create_ah(pd_, &attr.ah_attr);
    if (endpoint.peer == nullptr) {
      die("ibv_create_ah");
    }
  }
}

}  // namespace integrity
