/* dmabuf_check GID_INDEX MEMFD|UDMABUF: registers the middle of a memfd by its descriptor, or of a dmabuf that /dev/udmabuf makes of it, by two
 * regions that begin within a page: one is the source and one the target of a WRITE, a READ and a SEND between two connected queue pairs. The
 * bytes are compared in the memfd. Ends with 77 where there is no /dev/udmabuf. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kSize = 1 << 20, kLength = 100000, kSource = 4096 + 100, kTarget = 500000, kIova = 0x70000000 };

#define EXPECT(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
      exit(1); \
    } \
  } while (0)

static struct ibv_qp *make_pair_end(struct ibv_pd *pd, struct ibv_cq *cq) {
  struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
                                  .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  return ibv_create_qp(pd, &attr);
}

static void join(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid, int index) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1,
                              .grh = {.dgid = gid, .sgid_index = index, .hop_limit = 64}}};
  EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                       IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void await(struct ibv_cq *cq, int count) {
  struct ibv_wc wc;
  while (count > 0) {
    int got = ibv_poll_cq(cq, 1, &wc);
    EXPECT(got >= 0);
    if (got == 1) {
      if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
        exit(1);
      }
      --count;
    }
  }
}

static void fill(int file, off_t at, unsigned char first) {
  static unsigned char bytes[kLength];
  for (int i = 0; i < kLength; ++i) bytes[i] = (unsigned char)(first + i * 7);
  EXPECT(pwrite(file, bytes, kLength, at) == kLength);
}

static void expect_same(int file) {
  static unsigned char from[kLength], to[kLength];
  EXPECT(pread(file, from, kLength, kSource) == kLength && pread(file, to, kLength, kTarget) == kLength);
  EXPECT(memcmp(from, to, kLength) == 0);
}

int main(int argc, char **argv) {
  EXPECT(argc == 3);
  const int index = atoi(argv[1]);
  int memory = memfd_create("dmabuf_check", MFD_CLOEXEC | MFD_ALLOW_SEALING), buffer = memory;
  EXPECT(memory >= 0 && ftruncate(memory, kSize) == 0);
  if (strcmp(argv[2], "UDMABUF") == 0) {
    int maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    if (maker < 0) {
      printf("/dev/udmabuf: %s\n", strerror(errno));
      return 77;
    }
    struct udmabuf_create create = {.memfd = (unsigned)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = kSize};
    EXPECT(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && (buffer = ioctl(maker, UDMABUF_CREATE, &create)) >= 0);
  }

  struct ibv_device **list = ibv_get_device_list(NULL);
  EXPECT(list && list[0]);
  struct ibv_context *context = ibv_open_device(list[0]);
  EXPECT(context);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  union ibv_gid gid;
  EXPECT(pd && cq && ibv_query_gid(context, 1, index, &gid) == 0);

  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  struct ibv_mr *source = ibv_reg_dmabuf_mr(pd, kSource, kLength, 0, buffer, rights);
  struct ibv_mr *target = ibv_reg_dmabuf_mr(pd, kTarget, kLength, kIova, buffer, rights);
  EXPECT(source && target);
  EXPECT(source->length == kLength && source->addr == (void *)(uintptr_t)kSource);
  EXPECT(!ibv_reg_dmabuf_mr(pd, kSize - 10, 11, 0, buffer, rights) && errno == EINVAL);
  EXPECT(!ibv_reg_dmabuf_mr(pd, 0, 0, 0, buffer, rights) && errno == EINVAL);
  EXPECT(!ibv_reg_dmabuf_mr(pd, 0, 10, 0, context->async_fd, rights) && errno == EINVAL);
  EXPECT(!ibv_reg_dmabuf_mr(pd, 0, 10, 0, -1, rights) && errno == EOPNOTSUPP);
  EXPECT(!ibv_reg_dmabuf_mr(pd, 0, 10, 0, buffer, rights | IBV_ACCESS_ON_DEMAND) && errno == EOPNOTSUPP);

  struct ibv_qp *here = make_pair_end(pd, cq), *there = make_pair_end(pd, cq);
  EXPECT(here && there);
  join(here, there->qp_num, gid, index);
  join(there, here->qp_num, gid, index);

  struct ibv_sge sge = {.addr = 0, .length = kLength, .lkey = source->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                           .wr.rdma = {.remote_addr = kIova, .rkey = target->rkey}}, *bad;
  fill(memory, kSource, 1);
  EXPECT(ibv_post_send(here, &wr, &bad) == 0);
  await(cq, 1);
  expect_same(memory);

  fill(memory, kTarget, 2);
  wr.opcode = IBV_WR_RDMA_READ;
  EXPECT(ibv_post_send(here, &wr, &bad) == 0);
  await(cq, 1);
  expect_same(memory);

  fill(memory, kSource, 3);
  struct ibv_sge received = {.addr = kIova, .length = kLength, .lkey = target->lkey};
  struct ibv_recv_wr receive = {.sg_list = &received, .num_sge = 1}, *bad_receive;
  EXPECT(ibv_post_recv(there, &receive, &bad_receive) == 0);
  wr.opcode = IBV_WR_SEND;
  EXPECT(ibv_post_send(here, &wr, &bad) == 0);
  await(cq, 2);
  expect_same(memory);

  EXPECT(ibv_destroy_qp(here) == 0 && ibv_destroy_qp(there) == 0 && ibv_dereg_mr(source) == 0 && ibv_dereg_mr(target) == 0);
  printf("all right\n");
  return 0;
}
