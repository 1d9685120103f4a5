// Verbs that aren't there yet. They are exported all the same: a program that misses one symbol
// doesn't start, and the real library's would crash on our objects.

#include "verbs_shim/objects/verbs.h"
#include "verbs_shim/socket/log.h"

using uroce::shim::refuse;

extern "C" {

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int descriptor,
                          int access) {
  (void)pd;
  (void)offset;
  (void)length;
  (void)iova;
  (void)descriptor;
  (void)access;
  refuse("ibv_reg_dmabuf_mr", EOPNOTSUPP, "there is no device whose buffers could be shared");
  return nullptr;
}
}
