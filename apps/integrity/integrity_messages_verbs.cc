#include "apps/integrity/integrity_messages_verbs.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace integrity {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint8_t kHopLimit = 64;
constexpr int kRegionAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr std::uint8_t kRnrTimerCode = 12;  // 0.64 ms
constexpr std::uint8_t kForEver = 7;

// What a queue pair must be told on its way to RTS.
struct Masks {
  int init, rtr, rts;
};

Masks masks_of(ibv_qp_type type) {
  constexpr int kConnect = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  constexpr int kAnswer = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  constexpr int kRetry =
      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  switch (type) {
    case IBV_QPT_UD:
      return {IBV_QP_QKEY, 0, IBV_QP_SQ_PSN};
    case IBV_QPT_UC:
      return {IBV_QP_ACCESS_FLAGS, kConnect, IBV_QP_SQ_PSN};
    case IBV_QPT_XRC_SEND:
      return {IBV_QP_ACCESS_FLAGS, kConnect, IBV_QP_SQ_PSN | kRetry};
    case IBV_QPT_XRC_RECV:
      return {IBV_QP_ACCESS_FLAGS, kConnect | kAnswer, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT};
    default:
      return {IBV_QP_ACCESS_FLAGS, kConnect | kAnswer, IBV_QP_SQ_PSN | kRetry};
  }
}

ibv_qp_type type_of(Service service) {
  constexpr ibv_qp_type kTypes[] = {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RC, IBV_QPT_XRC_SEND};
  return kTypes[static_cast<unsigned>(service)];
}

}  // namespace

MessageCard::MessageCard(const std::string& device, int gid_index, const MessageLimits& limits)
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
  if (limits_.datagrams()) {
    limits_.size_max = std::min(limits_.size_max, 128U << static_cast<unsigned>(mtu_));
  }
  const auto entries = static_cast<int>(limits.queue_pairs * (kRoundMessages + kSendsMax));
  cq = ibv_create_cq(context_, entries, nullptr, nullptr, 0);
  if (cq == nullptr) {
    die("ibv_create_cq");
  }
  if (limits_.xrc()) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    domain_ = ibv_open_xrcd(context_, &attr);
    if (domain_ == nullptr) {
      die("ibv_open_xrcd");
    }
  } else if (limits_.reliable()) {
    shared_ = make_srq(limits_.queue_pairs * limits_.receives());
  }
  for (std::uint32_t qp = 0; qp < limits.queue_pairs; ++qp) {
    make_queue_pair(qp);
  }
}

MessageCard::~MessageCard() {
  for (MessageEndpoint& endpoint : endpoints_) {
    ibv_destroy_qp(endpoint.qp);
    if (endpoint.receiving_qp != nullptr) {
      ibv_destroy_qp(endpoint.receiving_qp);
    }
    if (limits_.xrc()) {
      ibv_destroy_srq(endpoint.srq);
    }
    if (endpoint.peer != nullptr) {
      ibv_destroy_ah(endpoint.peer);
    }
  }
  if (shared_ != nullptr) {
    ibv_destroy_srq(shared_);
  }
  if (domain_ != nullptr) {
    ibv_close_xrcd(domain_);
  }
  endpoints_.clear();
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

ibv_srq* MessageCard::make_srq(std::uint32_t entries) {
  ibv_srq_init_attr_ex attr{};
  attr.attr.max_wr = entries;
  attr.attr.max_sge = 1;
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attr.srq_type = IBV_SRQT_BASIC;
  attr.pd = pd_;
  if (limits_.xrc()) {
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.xrcd = domain_;
    attr.cq = cq;
  }
  ibv_srq* srq = ibv_create_srq_ex(context_, &attr);
  if (srq == nullptr) {
    die("ibv_create_srq_ex");
  }
  return srq;
}

ibv_qp* MessageCard::create(ibv_qp_type type, ibv_srq* srq) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = type;
  if (type == IBV_QPT_XRC_RECV) {
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = domain_;
  } else {
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd_;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap.max_send_wr = kSendsMax;
    attr.cap.max_send_sge = 1;
    attr.sq_sig_all = 1;
  }
  if (!limits_.reliable()) {
    attr.cap.max_recv_wr = kRoundMessages;
    attr.cap.max_recv_sge = 1;
  }
  attr.srq = srq;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  if (qp == nullptr) {
    die("ibv_create_qp_ex");
  }
  return qp;
}

void MessageCard::make_queue_pair(std::uint32_t qp) {
  MessageEndpoint& endpoint = endpoints_[qp];
  const auto memory = [&](std::uint32_t messages, int access, std::uint32_t skew) {
    return std::make_unique<Arena>(pd_, messages * stride(), access, 8 * qp + skew);
  };
  endpoint.source = memory(kSendsMax, 0, 1);
  endpoint.receives = memory(limits_.receives(), IBV_ACCESS_LOCAL_WRITE, 3);
  endpoint.region = memory(kRoundMessages, kRegionAccess, 5);
  endpoint.qp = create(type_of(limits_.service), shared_);
  endpoint.srq = shared_;
  static_cast<Address&>(endpoint.mine) = {
      .gid = gid_,
      .region = reinterpret_cast<std::uintptr_t>(endpoint.region->data()),
      .rkey = endpoint.region->mr()->rkey,
      .qpn = endpoint.qp->qp_num,
      .psn = 0xFFFFF0U + qp,
      .mtu = static_cast<std::uint32_t>(mtu_)};
  endpoint.mine.receiving_qpn = endpoint.mine.qpn;
  if (limits_.xrc()) {
    endpoint.receiving_qp = create(IBV_QPT_XRC_RECV, nullptr);
    endpoint.mine.receiving_qpn = endpoint.receiving_qp->qp_num;
    endpoint.srq = make_srq(limits_.receives());
    if (ibv_get_srq_num(endpoint.srq, &endpoint.mine.srqn) != 0) {
      die("ibv_get_srq_num");
    }
  }
}

void MessageCard::post_receive(std::uint32_t owner, std::uint32_t slot, std::uint64_t work_id) {
  MessageEndpoint& endpoint = endpoints_[owner];
  ibv_sge sge = endpoint.receives->sge({slot * stride(), limits_.size_max + kGrhBytes},
                                       endpoint.receives->mr());
  ibv_recv_wr wr{.wr_id = work_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  errno = endpoint.srq != nullptr ? ibv_post_srq_recv(endpoint.srq, &wr, &bad)
                                  : ibv_post_recv(endpoint.qp, &wr, &bad);
  if (errno != 0) {
    die("posting a receive");
  }
}

ibv_ah_attr MessageCard::route_to(const Address& peer) const {
  ibv_ah_attr route{};
  route.is_global = 1;
  route.port_num = kPort;
  route.grh.dgid = peer.gid;
  route.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
  route.grh.hop_limit = kHopLimit;
  return route;
}

void MessageCard::connect(std::uint32_t qp) {
  MessageEndpoint& endpoint = endpoints_[qp];
  connect(endpoint, endpoint.qp, endpoint.theirs.receiving_qpn);
  if (endpoint.receiving_qp != nullptr) {
    connect(endpoint, endpoint.receiving_qp, endpoint.theirs.qpn);
  }
  if (limits_.datagrams()) {
    ibv_ah_attr route = route_to(endpoint.theirs);
    endpoint.peer = ibv_create_ah(pd_, &route);
    if (endpoint.peer == nullptr) {
      die("ibv_create_ah");
    }
  }
}

void MessageCard::connect(const MessageEndpoint& endpoint, ibv_qp* qp, std::uint32_t peer_qpn) {
  const Masks masks = masks_of(qp->qp_type);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qkey = kQkey;
  attr.qp_access_flags = kRegionAccess;
  if ((errno = ibv_modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | masks.init)) != 0) {
    die("ibv_modify_qp to INIT");
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(endpoint.mine.mtu, endpoint.theirs.mtu));
  attr.dest_qp_num = peer_qpn;
  attr.rq_psn = endpoint.theirs.psn;
  attr.ah_attr = route_to(endpoint.theirs);
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kRnrTimerCode;
  if ((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks.rtr)) != 0) {
    die("ibv_modify_qp to RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = endpoint.mine.psn;
  attr.max_rd_atomic = 1;
  attr.timeout = limits_.timeout_code;
  attr.retry_cnt = kForEver;
  attr.rnr_retry = kForEver;
  if ((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks.rts)) != 0) {
    die("ibv_modify_qp to RTS");
  }
}

}  // namespace integrity
