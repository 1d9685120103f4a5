#pragma once

// The verbs that programs reach through tables of function pointers (device/operations.cc).

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

ibv_mr* alloc_null_mr(ibv_pd* pd);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access);

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);
int get_srq_num(ibv_srq* srq, uint32_t* number);

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
int dealloc_parent_domain(Pd& pd);

// For create_qp_ex: an XRC receive queue pair. nullptr with errno.
Qp* create_xrc_target(ibv_context* context, const ibv_qp_init_attr_ex& attr);

}  // namespace uroce::shim
