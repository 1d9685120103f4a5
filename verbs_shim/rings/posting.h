#pragma once

// The functions for posting and polling that programs call through tables of function pointers, and
// helpers for other verbs.

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int poll_cq(ibv_cq* cq, int entry_count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);

void fill_wr_operations(Qp& qp);    // qp_ex.cc
void fill_poll_operations(Cq& cq);  // cq_ex.cc

// Removes unpolled completions of this queue pair from its queues. REQUIRES: this thread isn't
// between ibv_start_poll() and ibv_end_poll() of one of them, which it has locked then; it may be
// if that queue is for a single thread.
void drop_completions(const ibv_qp& qp);

// Notifies the worker of new work of this queue pair, and wakes it if it sleeps. REQUIRES: the
// ring's producer index was published.
void ring_doorbell(Qp& qp);
// Publishes the send work requests that were put into the ring, and notifies the worker. REQUIRES:
// the caller has the send queue's lock.
void publish_sends(Qp& qp);

}  // namespace uroce::shim
