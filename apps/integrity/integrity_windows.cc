// --windows: before each round our regions are opened to the peer by memory windows, and after it
// they are closed again, in turns by ourselves and by the peer's SEND with invalidate. So every
// round has keys of its own, and between rounds the peer has none.

#include <cerrno>
#include <cstdio>

#include <uroce/verbs_flush.h>
#include "apps/integrity/integrity_run.h"

namespace integrity {
namespace {

constexpr unsigned kWindowAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                   IBV_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_FLUSH_GLOBAL;
constexpr std::uint64_t kWindowWork = 0x77;

}  // namespace

// Waits until the request for a window has completed, and with `receives` the peer's too, in
// whatever order. No other completion can come meanwhile.
void Runner::await(std::uint32_t qp, ibv_wc_opcode opcode, bool receives) {
  const Endpoint& endpoint = card_.endpoint(qp);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool sent = false;
  bool received = !receives;
  ibv_wc wc{};
  while ((!sent || !received) && !failed_ && std::chrono::steady_clock::now() < until) {
    if (ibv_poll_cq(endpoint.qp->send_cq, 1, &wc) == 0 &&
        ibv_poll_cq(endpoint.qp->recv_cq, 1, &wc) == 0) {
      continue;
    }
    const bool ours =
        wc.status == IBV_WC_SUCCESS && wc.wr_id == kWindowWork && wc.qp_num == endpoint.mine.qpn;
    const bool told = wc.opcode == IBV_WC_RECV && (wc.wc_flags & IBV_WC_WITH_INV) != 0 &&
                      wc.invalidated_rkey == endpoint.mine.rkey;
    sent |= ours && wc.opcode == opcode;
    received |= ours && told;
    if (!ours || (wc.opcode != opcode && !told)) {
      wrong("qp %u: a window's request: %s, opcode %d, flags %#x, key %#x", qp,
            ibv_wc_status_str(wc.status), wc.opcode, wc.wc_flags, wc.invalidated_rkey);
      failed_ = true;
    }
  }
  if (!failed_ && (!sent || !received)) {
    wrong("qp %u: a window's request didn't complete within 30 s", qp);
    failed_ = true;
  }
}

void Runner::bind_window(std::uint32_t qp) {
  Endpoint& endpoint = card_.endpoint(qp);
  ibv_send_wr wr{};
  wr.wr_id = kWindowWork;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw.mw = endpoint.window;
  wr.bind_mw.rkey = ibv_inc_rkey(endpoint.window->rkey);
  wr.bind_mw.bind_info = {.mr = endpoint.region->mr(),
                          .addr = reinterpret_cast<std::uintptr_t>(endpoint.region->data()),
                          .length = limits_.arena_size(),
                          .mw_access_flags = kWindowAccess};
  ibv_send_wr* bad = nullptr;
  if ((errno = ibv_post_send(endpoint.qp, &wr, &bad)) != 0) {
    die("ibv_post_send of a bind");
  }
  endpoint.window->rkey = wr.bind_mw.rkey;
  await(qp, IBV_WC_BIND_MW, false);
  endpoint.mine.rkey = wr.bind_mw.rkey;
}

bool Runner::open_windows() {
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs && !failed_; ++qp) {
    bind_window(qp);
    if (!link().exchange(card_.endpoint(qp).mine.rkey, card_.endpoint(qp).theirs.rkey)) {
      return false;
    }
  }
  return !failed_;
}

// Invalidates our window, or (`by_peer`) the peer's, which does the same to ours.
void Runner::close_window(std::uint32_t qp, bool by_peer) {
  Endpoint& endpoint = card_.endpoint(qp);
  if (by_peer) {
    ibv_recv_wr receive{.wr_id = kWindowWork, .next = nullptr, .sg_list = nullptr, .num_sge = 0};
    ibv_recv_wr* bad = nullptr;
    if ((errno = ibv_post_recv(endpoint.qp, &receive, &bad)) != 0) {
      die("ibv_post_recv");
    }
  }
  ibv_send_wr wr{};
  wr.wr_id = kWindowWork;
  wr.opcode = by_peer ? IBV_WR_SEND_WITH_INV : IBV_WR_LOCAL_INV;
  wr.invalidate_rkey = by_peer ? endpoint.theirs.rkey : endpoint.mine.rkey;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if ((errno = ibv_post_send(endpoint.qp, &wr, &bad)) != 0) {
    die("ibv_post_send of an invalidation");
  }
}

// One queue pair after the other, because some share a completion queue.
bool Runner::close_windows() {
  const bool by_peer = current_round() % 2 == 1;
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs && !failed_; ++qp) {
    close_window(qp, by_peer);
    await(qp, by_peer ? IBV_WC_SEND : IBV_WC_LOCAL_INV, by_peer);
  }
  return !failed_ && meet();
}

}  // namespace integrity
