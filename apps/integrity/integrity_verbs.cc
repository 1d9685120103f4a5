#include "apps/integrity/integrity_verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <uroce/verbs_flush.h>

namespace integrity {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kInlineWanted = 64;
constexpr std::uint8_t kReadsMax = 16;
constexpr std::uint8_t kRnrTimerCode = 12;  // 0.64 ms
constexpr std::uint8_t kForEver = 7;
constexpr std::uint8_t kHopLimit = 64;
constexpr int kOnDemand = IBV_ACCESS_ON_DEMAND;
constexpr int kRemoteAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kFlushAccess = UROCE_ACCESS_FLUSH_GLOBAL;
constexpr std::uint64_t kSendOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
    IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
    IBV_QP_EX_WITH_SEND_WITH_INV | UROCE_QP_EX_WITH_FLUSH;

}  // namespace

ibv_context* open_device(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (name.empty() || name == ibv_get_device_name(list[i])) {
      context = ibv_open_device(list[i]);
    }
  }
  ibv_free_device_list(list);
  if (context == nullptr) {
    std::fprintf(stderr, "%s: no device%s%s\n", program.name, name.empty() ? "" : " named ",
                 name.c_str());
    std::exit(1);
  }
  return context;
}

void die(const char* what) {
  std::fprintf(stderr, "%s: %s failed: %s\n", program.name, what, std::strerror(errno));
  std::exit(1);
}

namespace {

[[noreturn]] void die_of_registering() {
  std::fprintf(stderr, "%s: ibv_reg_mr failed: %s%s\n", program.name, std::strerror(errno),
               errno == ENOMEM ? program.how_to_need_less : "");
  std::exit(1);
}

}  // namespace

Arena::Arena(ibv_pd* pd, std::uint32_t size, int access, std::uint32_t skew, Odp odp, bool in_file,
             ibv_mr* all_memory)
    : memory_(size + skew, odp, in_file), skew_(skew), all_memory_(all_memory) {
  if (all_memory == nullptr) {
    mr_.reset(ibv_reg_mr(pd, data(), size, access | (odp == Odp::kNo ? 0 : kOnDemand)));
  }
  if (mr() == nullptr) {
    die_of_registering();
  }
}

void Arena::forget() {
  if (memory_.spared() && !memory_.in_file()) {
    memory_.drop(0, memory_.length() - Memory::kSparePages * Memory::kPage);
  }
}

ibv_sge Arena::sge(const Piece& piece, ibv_mr* key) {
  return {.addr = reinterpret_cast<std::uintptr_t>(data()) + piece.offset,
          .length = piece.length,
          .lkey = key->lkey};
}

Card::Card(const std::string& device, int gid_index, const Limits& limits, Odp odp,
           std::uint8_t timeout_code)
    : context_(open_device(device)),
      pd_(ibv_alloc_pd(context_)),
      odp_(odp),
      gid_index_(gid_index),
      timeout_code_(timeout_code),
      endpoints_(limits.queue_pairs) {
  ibv_port_attr port{};
  if (pd_ == nullptr || ibv_query_port(context_, kPort, &port) != 0 ||
      ibv_query_gid(context_, kPort, gid_index, &gid_) != 0) {
    die("asking the device");
  }
  mtu_max_ = port.active_mtu;
  if (odp == Odp::kImplicit) {
    const int window_access = limits.windows ? IBV_ACCESS_MW_BIND | kFlushAccess : 0;
    all_memory_ = ibv_reg_mr(pd_, nullptr, SIZE_MAX, kRemoteAccess | kOnDemand | window_access);
    if (all_memory_ == nullptr) {
      die("ibv_reg_mr of all memory");
    }
  }
  const auto entries =
      static_cast<int>(limits.queue_pairs * (kSendDepth + limits.operations_max + 1));
  channel = ibv_create_comp_channel(context_);
  polled = ibv_create_cq(context_, entries, nullptr, nullptr, 0);
  event_send = channel != nullptr ? ibv_create_cq(context_, entries, this, channel, 0) : nullptr;
  event_receive = channel != nullptr ? ibv_create_cq(context_, entries, this, channel, 0) : nullptr;
  if (polled == nullptr || event_send == nullptr || event_receive == nullptr) {
    die("ibv_create_cq");
  }
  for (std::uint32_t qp = 0; qp < limits.queue_pairs; ++qp) {
    make_queue_pair(qp, limits);
  }
}

Card::~Card() {
  for (Endpoint& endpoint : endpoints_) {
    if (endpoint.window != nullptr) {
      ibv_dealloc_mw(endpoint.window);
    }
    ibv_destroy_qp(endpoint.qp);
    if (endpoint.second_key != all_memory_) {
      ibv_dereg_mr(endpoint.second_key);
    }
  }
  endpoints_.clear();
  if (all_memory_ != nullptr) {
    ibv_dereg_mr(all_memory_);
  }
  ibv_destroy_cq(event_receive);
  ibv_destroy_cq(event_send);
  ibv_destroy_cq(polled);
  ibv_destroy_comp_channel(channel);
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

void Card::make_queue_pair(std::uint32_t qp, const Limits& limits) {
  Endpoint& endpoint = endpoints_[qp];
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = qp % 2 == 0 ? polled : event_send;
  attr.recv_cq = qp % 2 == 0 ? polled : event_receive;
  attr.cap = {.max_send_wr = kSendDepth,
              .max_recv_wr = limits.operations_max,
              .max_send_sge = limits.sges_max,
              .max_recv_sge = limits.sges_max,
              .max_inline_data = kInlineWanted};
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = Planner::signals_all(qp) ? 1 : 0;
  attr.pd = pd_;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (limits.windows) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = kSendOperations;
  }
  endpoint.qp = ibv_create_qp_ex(context_, &attr);
  if (endpoint.qp == nullptr) {
    die("ibv_create_qp");
  }
  inline_max_ = std::min(attr.cap.max_inline_data, kInlineWanted);
  const std::uint32_t size = limits.arena_size();
  const auto arena = [&](int access, std::uint32_t skew) {
    const bool in_file = qp % 2 == 0;
    return std::make_unique<Arena>(pd_, size, access, 8 * qp + skew, odp_, in_file, all_memory_);
  };
  endpoint.source = arena(0, 1);
  endpoint.sink = arena(IBV_ACCESS_LOCAL_WRITE, 3);
  endpoint.receive = arena(IBV_ACCESS_LOCAL_WRITE, 5);
  // With windows the region itself isn't for the peer.
  const int region_access =
      limits.windows ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | kFlushAccess : kRemoteAccess;
  endpoint.region = arena(region_access, 8);
  if (limits.windows) {
    endpoint.window = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
    if (endpoint.window == nullptr) {
      die("ibv_alloc_mw");
    }
  }
  endpoint.second_key = all_memory_ != nullptr ? all_memory_
                                               : ibv_reg_mr(pd_, endpoint.source->data(), size,
                                                            odp_ == Odp::kNo ? 0 : kOnDemand);
  if (endpoint.second_key == nullptr) {
    die_of_registering();
  }
  const auto mtu = static_cast<std::uint32_t>(IBV_MTU_256) + qp % 5;
  endpoint.mine = {.gid = gid_,
                   .region = reinterpret_cast<std::uintptr_t>(endpoint.region->data()),
                   .rkey = endpoint.region->mr()->rkey,
                   .qpn = endpoint.qp->qp_num,
                   .psn = 0xFFFFF0U + qp,  // so that packet sequence numbers soon wrap
                   .mtu = std::min(mtu, static_cast<std::uint32_t>(mtu_max_))};
}

std::vector<Memory*> Card::memories() {
  std::vector<Memory*> all;
  for (Endpoint& endpoint : endpoints_) {
    for (Arena* arena : {endpoint.source.get(), endpoint.sink.get(), endpoint.receive.get(),
                         endpoint.region.get()}) {
      if (arena->memory().spared()) {
        all.push_back(&arena->memory());
      }
    }
  }
  return all;
}

void Card::connect(std::uint32_t qp) {
  Endpoint& endpoint = endpoints_[qp];
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qp_access_flags = kRemoteAccess;
  if (endpoint.window != nullptr) {
    attr.qp_access_flags |= unsigned{kFlushAccess};
  }
  if ((errno = ibv_modify_qp(
           endpoint.qp, &attr,
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) != 0) {
    die("ibv_modify_qp to INIT");
  }
  const auto reads = static_cast<std::uint8_t>(1U + qp % kReadsMax);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(endpoint.mine.mtu, endpoint.theirs.mtu));
  attr.dest_qp_num = endpoint.theirs.qpn;
  attr.rq_psn = endpoint.theirs.psn;
  attr.max_dest_rd_atomic = reads;
  attr.min_rnr_timer = kRnrTimerCode;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = endpoint.theirs.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
  attr.ah_attr.grh.hop_limit = kHopLimit;
  if ((errno = ibv_modify_qp(endpoint.qp, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER)) != 0) {
    die("ibv_modify_qp to RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = endpoint.mine.psn;
  attr.max_rd_atomic = reads;
  attr.timeout = timeout_code_;
  attr.retry_cnt = kForEver;
  attr.rnr_retry = kForEver;
  if ((errno = ibv_modify_qp(endpoint.qp, &attr,
                             IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                                 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)) != 0) {
    die("ibv_modify_qp to RTS");
  }
}

}  // namespace integrity
