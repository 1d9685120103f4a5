#pragma once

// The verbs ABI, as Debian's headers define it, ready to be implemented.
//
// Everything that the headers declare is exported from the shared object, although the rest is
// compiled with hidden visibility; symbols.table gives each name its version. The headers wrap
// three functions in macros, which are undefined here so that the functions can be defined.

#pragma GCC visibility push(default)
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

extern "C" {
// Exported, but declared in no installed header.
const char* ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size);
int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr* to, struct ib_uverbs_ah_attr* from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr* to, struct ib_uverbs_qp_attr* from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec* to, struct ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec* to, struct ibv_sa_path_rec* from);
}
#pragma GCC visibility pop

// After the verbs, which it includes: additions of newer headers.
#include "verbs_shim/include/uroce/verbs_flush.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

// The ABI that programs were compiled against. Some structures hold a mutex, which is libc's.
#if defined(__x86_64__)
static_assert(sizeof(pthread_mutex_t) == 40);
#else
static_assert(sizeof(pthread_mutex_t) == 48);
#endif
static_assert(sizeof(ibv_device) == 664);
static_assert(sizeof(ibv_context) == 288 + sizeof(pthread_mutex_t));
static_assert(sizeof(verbs_context) == 608 + sizeof(pthread_mutex_t));
static_assert(offsetof(verbs_context, context) == 320);
static_assert(sizeof(ibv_pd) == 16);
static_assert(sizeof(ibv_mr) == 48);
static_assert(sizeof(ibv_qp) == 120 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_cq) == 88 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_srq) == 88 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_wc) == 48);
static_assert(sizeof(ibv_comp_channel) == 16);
static_assert(offsetof(ibv_cq_ex, async_events_completed) ==
              offsetof(ibv_cq, async_events_completed));
