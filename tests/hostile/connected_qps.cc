#include "tests/hostile/connected_qps.h"

#include <arpa/inet.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/ipv4_mapped.h"

namespace uroce::hostile {
namespace {

[[noreturn]] void give_up(const char* what, int error) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(error));
  std::exit(1);
}

int to_rtr(ibv_qp* qp, const ibv_gid& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  const int error = ibv_modify_qp(
      qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) {
    return error;
  }
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = 99;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = peer;
  attributes.ah_attr.grh.sgid_index = 1;
  attributes.ah_attr.grh.hop_limit = 64;
  return ibv_modify_qp(qp, &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

}  // namespace

ConnectedQps::ConnectedQps(const bench::BenchCard& card, int count, const char* address)
    : cq_(ibv_create_cq(card.context(), 16, nullptr, nullptr, 0)) {
  in_addr ipv4{};
  if (inet_pton(AF_INET, address, &ipv4) != 1) {
    give_up(address, EINVAL);
  }
  const auto peer = std::bit_cast<ibv_gid>(ipv4_mapped(ipv4));
  for (int i = 0; i < count; ++i) {
    add(card, peer);
  }
}

ConnectedQps::~ConnectedQps() {
  for (ibv_qp* qp : qps_) {
    ibv_destroy_qp(qp);
  }
  ibv_destroy_cq(cq_);
}

void ConnectedQps::add(const bench::BenchCard& card, const ibv_gid& peer) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq_;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(card.pd(), &wanted);
  if (qp == nullptr) {
    give_up("a queue pair can't be made", errno);
  }
  qps_.push_back(qp);
  if (const int error = to_rtr(qp, peer); error != 0) {
    give_up("a queue pair can't be connected", error);
  }
}

}  // namespace uroce::hostile
