/* static_check GID_INDEX: a statically linked program, which loads libibverbs by dlopen. Memory from its own malloc goes from one half to the
 * other by a WRITE of a queue pair that is connected to itself. Such a program can't have memory on demand. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLength = 200000 };

#define EXPECT(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
      exit(1); \
    } \
  } while (0)

static void *verbs;

#define VERB(name) ((__typeof__(&(name)))dlsym(verbs, #name))

static void connect_to_itself(struct ibv_qp *qp, union ibv_gid gid, int index) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  EXPECT(VERB(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = index, .hop_limit = 64}}};
  EXPECT(VERB(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
  EXPECT(VERB(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  const int index = atoi(argv[1]);
  verbs = dlopen("libibverbs.so.1", RTLD_NOW);
  if (!verbs) fprintf(stderr, "%s\n", dlerror());
  EXPECT(verbs);
  struct ibv_device **list = VERB(ibv_get_device_list)(NULL);
  EXPECT(list && list[0]);
  struct ibv_context *context = VERB(ibv_open_device)(list[0]);
  EXPECT(context);
  struct ibv_pd *pd = VERB(ibv_alloc_pd)(context);
  struct ibv_cq *cq = VERB(ibv_create_cq)(context, 16, NULL, NULL, 0);
  union ibv_gid gid;
  EXPECT(pd && cq && VERB(ibv_query_gid)(context, 1, index, &gid) == 0);

  unsigned char *bytes = malloc(2 * kLength);
  for (int i = 0; i < kLength; ++i) bytes[i] = (unsigned char)(i * 7);
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  struct ibv_mr *region = VERB(ibv_reg_mr_iova2)(pd, bytes, 2 * kLength, (uintptr_t)bytes, rights);
  EXPECT(region);
  EXPECT(!VERB(ibv_reg_mr_iova2)(pd, bytes, kLength, (uintptr_t)bytes, rights | IBV_ACCESS_ON_DEMAND));

  struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp *qp = VERB(ibv_create_qp)(pd, &wanted);
  EXPECT(qp);
  connect_to_itself(qp, gid, index);
  struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = kLength, .lkey = region->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                           .wr.rdma = {.remote_addr = (uintptr_t)bytes + kLength, .rkey = region->rkey}}, *bad;
  EXPECT(ibv_post_send(qp, &wr, &bad) == 0);
  struct ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
  EXPECT(wc.status == IBV_WC_SUCCESS);
  EXPECT(memcmp(bytes, bytes + kLength, kLength) == 0);
  puts("all right");
  return 0;
}
