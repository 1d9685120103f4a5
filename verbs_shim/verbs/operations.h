#pragma once

// The calls that programs reach through tables of function pointers, and the tables' filling.

#include "verbs_shim/verbs/objects.h"

namespace uroce::shim {

// Fills ibv_context.ops and verbs_context. What stays null there answers EOPNOTSUPP by itself, in
// the headers' inline functions.
void fill_operations(Context& context);
void fill_wr_operations(Qp& qp);    // qp_ex.cc
void fill_poll_operations(Cq& cq);  // cq_ex.cc

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int poll_cq(ibv_cq* cq, int entry_count, ibv_wc* wc);
// Takes out what wasn't polled yet of this queue pair.
void drop_completions(Cq& cq, std::uint32_t qpn);
int req_notify_cq(ibv_cq* cq, int solicited_only);

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

ibv_mr* alloc_null_mr(ibv_pd* pd);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access);

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t length);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t length);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
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

// Opens the device. An exporter (magic != 0): what its session has can be imported.
ibv_context* open_context(ibv_device* device, const abi::Ticket& exporter);

// For create_qp_ex: the queue pair at which XRC requests arrive. nullptr with errno.
Qp* create_xrc_target(ibv_context* context, const ibv_qp_init_attr_ex& attr);

// For fork handling, to keep the list whole.
void lock_device_list();
void unlock_device_list();

// Fork handling knows every open context.
void remember(Context& context);
void forget(Context& context);

}  // namespace uroce::shim
