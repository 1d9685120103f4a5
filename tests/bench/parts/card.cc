#include "tests/bench/parts/card.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"

namespace uroce::bench {
namespace {

constexpr std::uint8_t kGidIndex = 1;  // the IPv4 address
constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

ibv_qp* make_qp(const BenchCard& card, ibv_cq* cq, std::uint32_t depth) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = cq;
  wanted.recv_cq = cq;
  wanted.cap = {.max_send_wr = depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(card.pd(), &wanted);
  UROCE_CHECK(qp != nullptr);
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = kAllRights;
  UROCE_CHECK(ibv_modify_qp(qp, &init,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
              0);
  return qp;
}

void connect(ibv_qp* qp, const ibv_qp* peer, const ibv_gid& gid, ibv_mtu mtu) {
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = mtu;
  ready.dest_qp_num = peer->qp_num;
  ready.max_dest_rd_atomic = 1;
  ready.min_rnr_timer = 1;
  ready.ah_attr.is_global = 1;
  ready.ah_attr.port_num = 1;
  ready.ah_attr.grh.dgid = gid;
  ready.ah_attr.grh.sgid_index = kGidIndex;
  ready.ah_attr.grh.hop_limit = 64;
  UROCE_CHECK(ibv_modify_qp(qp, &ready,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
              0);
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = 14;
  send.retry_cnt = 7;
  send.rnr_retry = 7;
  send.max_rd_atomic = 1;
  UROCE_CHECK(ibv_modify_qp(qp, &send,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

}  // namespace

BenchDaemon::BenchDaemon(const std::string& program) {
  char folder[] = "/tmp/uroce-bench-XXXXXX";
  UROCE_CHECK(::mkdtemp(folder) != nullptr);
  folder_ = folder;
  const std::string socket = folder_ + "/socket";
  int ready[2];
  UROCE_CHECK(::pipe(ready) == 0);
  const std::string ready_text = std::to_string(ready[1]);
  child_ = ::fork();
  UROCE_CHECK(child_ >= 0);
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::close(ready[0]);
    ::execl(program.c_str(), program.c_str(), "--port", "loopback", "--ip", "10.77.0.1/24",
            "--socket", socket.c_str(), "--ready-fd", ready_text.c_str(), "--log-level", "warning",
            nullptr);
    ::_exit(1);
  }
  ::close(ready[1]);
  char byte = 0;
  UROCE_CHECK(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::setenv("UROCE_SOCKET", socket.c_str(), 1);
}

BenchDaemon::~BenchDaemon() {
  ::kill(child_, SIGTERM);
  ::waitpid(child_, nullptr, 0);
  std::error_code ignored;  // a leftover folder is harmless
  std::filesystem::remove_all(folder_, ignored);
}

BenchCard::BenchCard() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  UROCE_CHECK(devices != nullptr && count > 0);
  context_ = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  UROCE_CHECK(context_ != nullptr);
  pd_ = ibv_alloc_pd(context_);
  UROCE_CHECK(pd_ != nullptr);
  ibv_port_attr port{};
  UROCE_CHECK(ibv_query_gid(context_, 1, kGidIndex, &gid_) == 0);
  UROCE_CHECK(ibv_query_port(context_, 1, &port) == 0);
  mtu_ = port.active_mtu;
}

BenchCard::~BenchCard() {
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

RegionHandle BenchCard::register_range(void* address, std::size_t length, bool on_demand) {
  ibv_mr* const region =
      ibv_reg_mr(pd_, address, length, kAllRights | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));
  UROCE_CHECK(region != nullptr);
  return RegionHandle(region);
}

BenchPair::BenchPair(const BenchCard& card)
    : BenchPair(card, kDepth, ibv_create_cq(card.context(), 2 * kDepth, nullptr, nullptr, 0)) {
  owns_cq_ = true;
}

BenchPair::BenchPair(const BenchCard& card, std::uint32_t depth, ibv_cq* shared) : cq_(shared) {
  UROCE_CHECK(cq_ != nullptr);
  sender_ = make_qp(card, cq_, depth);
  receiver_ = make_qp(card, cq_, depth);
  connect(sender_, receiver_, card.gid(), card.mtu());
  connect(receiver_, sender_, card.gid(), card.mtu());
}

BenchPair::~BenchPair() {
  ibv_destroy_qp(sender_);
  ibv_destroy_qp(receiver_);
  if (owns_cq_) {
    ibv_destroy_cq(cq_);
  }
}

void BenchPair::post_write(const ibv_mr& from, std::size_t from_offset, const ibv_mr& to,
                           std::size_t to_offset, std::uint32_t length, std::uint64_t wr_id) {
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(from.addr) + from_offset,
              .length = length,
              .lkey = from.lkey};
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.addr) + to_offset;
  request.wr.rdma.rkey = to.rkey;
  ibv_send_wr* bad = nullptr;
  UROCE_CHECK(ibv_post_send(sender_, &request, &bad) == 0);
  ++outstanding_;
}

std::uint32_t BenchPair::reap() {
  std::array<ibv_wc, kDepth> completions;
  const int count = ibv_poll_cq(cq_, kDepth, completions.data());
  UROCE_CHECK(count >= 0);
  for (int i = 0; i < count; ++i) {
    UROCE_CHECK(completions[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS);
  }
  outstanding_ -= static_cast<std::uint32_t>(count);
  return static_cast<std::uint32_t>(count);
}

void BenchPair::drain() {
  while (outstanding_ != 0) {
    reap();
  }
}

double BenchPair::write_one(const ibv_mr& from, const ibv_mr& to, std::size_t to_offset,
                            std::uint32_t length) {
  const auto start = std::chrono::steady_clock::now();
  post_write(from, 0, to, to_offset, length);
  drain();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

Pages::Pages(std::size_t length) : length_(length) {
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  UROCE_CHECK(memory != MAP_FAILED);
  ::madvise(memory, length, MADV_NOHUGEPAGE);
  start_ = static_cast<std::byte*>(memory);
}

Pages::~Pages() { ::munmap(start_, length_); }

}  // namespace uroce::bench
