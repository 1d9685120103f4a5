// The shortest useful verbs program: two reliable connected queue pairs of one device, in one
// process; the first sends a message to the second. Every step that any RDMA program takes, in
// order. Errors end the program: the operating system cleans up.

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::uint8_t kPort = 1;
constexpr int kGidIndex = 1;  // the port's IPv4 address; 0 is its link-local IPv6 address
constexpr std::uint32_t kFirstPsn = 1;
constexpr std::size_t kRoom = 64;

void check(bool fine, const char* what) {
  if (!fine) {
    std::perror(what);
    std::exit(1);
  }
}

ibv_context* open_first_device() {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  check(devices != nullptr && count > 0, "no RDMA device");
  ibv_context* context = ibv_open_device(devices[0]);
  check(context != nullptr, "ibv_open_device");
  std::printf("device %s\n", ibv_get_device_name(devices[0]));
  ibv_free_device_list(devices);
  return context;
}

ibv_qp* make_queue_pair(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr attr{};
  attr.send_cq = cq;
  attr.recv_cq = cq;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  check(qp != nullptr, "ibv_create_qp");
  return qp;
}

// A queue pair has to be told its partner before it can receive, and how patient to be before it
// can send.
void connect(ibv_qp* qp, std::uint32_t partner, const ibv_gid& partner_gid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  check(ibv_modify_qp(qp, &attr, mask) == 0, "to INIT");

  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = partner;
  attr.rq_psn = kFirstPsn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;  // 0.64 ms
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = partner_gid;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  attr.ah_attr.grh.hop_limit = 1;
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  check(ibv_modify_qp(qp, &attr, mask) == 0, "to RTR");

  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = kFirstPsn;
  attr.max_rd_atomic = 1;
  attr.timeout = 14;  // 67 ms
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  check(ibv_modify_qp(qp, &attr, mask) == 0, "to RTS");
}

}  // namespace

int main() {
  ibv_context* context = open_first_device();
  ibv_gid gid{};
  check(ibv_query_gid(context, kPort, kGidIndex, &gid) == 0, "ibv_query_gid");
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  check(pd != nullptr && cq != nullptr, "ibv_create_cq");

  char out[kRoom] = "hello from queue pair to queue pair";
  char in[kRoom] = "";
  ibv_mr* out_mr = ibv_reg_mr(pd, out, sizeof(out), 0);
  ibv_mr* in_mr = ibv_reg_mr(pd, in, sizeof(in), int{IBV_ACCESS_LOCAL_WRITE});
  check(out_mr != nullptr && in_mr != nullptr, "ibv_reg_mr");

  ibv_qp* sender = make_queue_pair(pd, cq);
  ibv_qp* receiver = make_queue_pair(pd, cq);
  connect(sender, receiver->qp_num, gid);
  connect(receiver, sender->qp_num, gid);

  // A message needs a place to go before it comes.
  ibv_sge room{reinterpret_cast<std::uintptr_t>(in), sizeof(in), in_mr->lkey};
  ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &room, .num_sge = 1};
  ibv_recv_wr* bad_receive = nullptr;
  check(ibv_post_recv(receiver, &receive, &bad_receive) == 0, "ibv_post_recv");

  ibv_sge message{reinterpret_cast<std::uintptr_t>(out),
                  static_cast<std::uint32_t>(std::strlen(out)) + 1, out_mr->lkey};
  ibv_send_wr send{};
  send.wr_id = 2;
  send.sg_list = &message;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;
  check(ibv_post_send(sender, &send, &bad_send) == 0, "ibv_post_send");

  for (int done = 0; done < 2;) {
    ibv_wc wc{};
    const int count = ibv_poll_cq(cq, 1, &wc);
    check(count >= 0, "ibv_poll_cq");
    if (count > 0) {
      check(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
      std::printf("%s complete\n", wc.wr_id == 1 ? "receive" : "send");
      ++done;
    }
  }
  std::printf("received: %s\n", in);

  ibv_destroy_qp(receiver);
  ibv_destroy_qp(sender);
  ibv_dereg_mr(in_mr);
  ibv_dereg_mr(out_mr);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  return 0;
}
