// The verdicts: is this completion the next one, does it say the right things, are the bytes right.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <uroce/verbs_flush.h>
#include "apps/integrity/integrity_run.h"

namespace integrity {
namespace {

constexpr ibv_wc_opcode kCompletion[kKinds] = {
    IBV_WC_SEND,       IBV_WC_SEND,         IBV_WC_RDMA_WRITE,
    IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,    IBV_WC_COMP_SWAP,
    IBV_WC_FETCH_ADD,  IBV_WC_ATOMIC_WRITE, static_cast<ibv_wc_opcode>(UROCE_WC_FLUSH)};

}  // namespace

void Runner::completed(const ibv_wc& wc) {
  const auto qp = static_cast<std::uint32_t>(wc.wr_id >> 32U) & 0xFFFFU;
  const auto index = static_cast<std::uint32_t>(wc.wr_id);
  const bool receive = (wc.wr_id & kReceiveBit) != 0;
  if (wc.status != IBV_WC_SUCCESS) {
    wrong("qp %u, %s %u: %s (vendor error %u)", qp, receive ? "receive" : "request", index,
          ibv_wc_status_str(wc.status), wc.vendor_err);
    failed_ = true;
    return;
  }
  if (qp >= limits_.queue_pairs || wc.wr_id != work_id(qp, index, receive)) {
    wrong("a completion that belongs to no request of this round: wr_id %#llx",
          static_cast<unsigned long long>(wc.wr_id));
    return;
  }
  if (wc.qp_num != card_.endpoint(qp).mine.qpn) {
    wrong("qp %u: a completion names queue pair %#x", qp, wc.qp_num);
  }
  if (receive) {
    receive_completed(qp, index, wc);
  } else {
    send_completed(qp, index, wc);
  }
}

// A signalled request completed: it must be the next one, and all before it are complete too.
void Runner::send_completed(std::uint32_t qp, std::uint32_t index, const ibv_wc& wc) {
  Progress& progress = progress_[qp];
  const QpPlan& plan = mine_.plan(qp);
  std::uint32_t expected = progress.retired;
  while (expected < progress.posted && !plan.operations[expected].signaled) {
    ++expected;
  }
  if (index != expected || expected == progress.posted) {
    wrong("qp %u: request %u completed, %u was next", qp, index, expected);
    return;
  }
  const Operation& operation = plan.operations[index];
  if (wc.opcode != kCompletion[static_cast<unsigned>(operation.kind)]) {
    wrong("qp %u, request %u: completed as %d", qp, index, wc.opcode);
  }
  if (operation.comes_back() && wc.byte_len != operation.length) {
    wrong("qp %u, request %u: %u bytes, not %u", qp, index, wc.byte_len, operation.length);
  }
  for (std::uint32_t i = progress.retired; i <= index; ++i) {
    if (plan.operations[i].comes_back()) {
      compare_pieces("what came back to", qp, i, *card_.endpoint(qp).sink, plan.sink,
                     plan.operations[i].local, plan.operations[i].length);
    }
  }
  progress.retired = index + 1;
}

void Runner::receive_completed(std::uint32_t qp, std::uint32_t index, const ibv_wc& wc) {
  Progress& progress = progress_[qp];
  const QpPlan& plan = theirs_.plan(qp);
  if (progress.received == progress.receivers.size() ||
      index != progress.receivers[progress.received]) {
    wrong("qp %u: receive %u completed out of order", qp, index);
    return;
  }
  ++progress.received;
  const Operation& operation = plan.operations[index];
  const bool write = operation.kind == Kind::kWriteImm;
  const bool immediate = operation.kind != Kind::kSend;
  if (wc.opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV)) {
    wrong("qp %u, receive %u: completed as %d", qp, index, wc.opcode);
  }
  if (wc.byte_len != operation.length) {
    wrong("qp %u, receive %u: %u bytes, not %u", qp, index, wc.byte_len, operation.length);
  }
  if (((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != immediate ||
      (immediate && wc.imm_data != operation.immediate)) {
    wrong("qp %u, receive %u: flags %#x, immediate %#x, not %#x", qp, index, wc.wc_flags,
          wc.imm_data, operation.immediate);
  }
  if (!write) {
    compare_pieces("the message to", qp, index, *card_.endpoint(qp).receive, plan.receive,
                   operation.receive, operation.length);
  }
}

void Runner::compare(const char* what, std::uint32_t qp, const std::uint8_t* have,
                     const std::vector<std::uint8_t>& image, std::uint32_t from,
                     std::uint32_t length) {
  if (std::memcmp(have + from, image.data() + from, length) == 0) {
    return;
  }
  std::uint32_t at = from;
  while (have[at] == image[at]) {
    ++at;
  }
  wrong("qp %u: %s: byte %u is %#x, not %#x (compared %u bytes from %u)", qp, what, at, have[at],
        image[at], length, from);
}

void Runner::compare_pieces(const char* what, std::uint32_t qp, std::uint32_t index, Arena& arena,
                            const std::vector<std::uint8_t>& image,
                            const std::vector<Piece>& pieces, std::uint32_t length) {
  char text[64];
  std::snprintf(text, sizeof(text), "%s operation %u", what, index);
  for (const Piece& piece : pieces) {
    const std::uint32_t part = std::min(piece.length, length);
    compare(text, qp, arena.data(), image, piece.offset, part);
    length -= part;
  }
}

// After a round, all arenas: what must have come, and that nothing else was touched.
void Runner::compare_all() {
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
    Endpoint& endpoint = card_.endpoint(qp);
    const std::uint32_t size = limits_.arena_size();
    compare("the sink", qp, endpoint.sink->data(), mine_.plan(qp).sink, 0, size);
    compare("the receive arena", qp, endpoint.receive->data(), theirs_.plan(qp).receive, 0, size);
    compare("the region", qp, endpoint.region->data(), theirs_.plan(qp).region, 0, size);
  }
  ibv_wc extra{};
  for (ibv_cq* cq : {card_.polled, card_.event_send, card_.event_receive}) {
    while (ibv_poll_cq(cq, 1, &extra) > 0) {
      wrong("a completion too many: wr_id %#llx", static_cast<unsigned long long>(extra.wr_id));
    }
  }
}

void Runner::print_state() const {
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
    const Progress& progress = progress_[qp];
    std::fprintf(
        stderr,
        "integrity: qp %u (%#x to %#x): %zu requests, %u posted, %u complete; %zu messages "
        "expected, %u receives posted, %u complete\n",
        qp, card_.endpoint(qp).mine.qpn, card_.endpoint(qp).theirs.qpn,
        mine_.plan(qp).operations.size(), progress.posted, progress.retired,
        progress.receivers.size(), progress.receives_posted, progress.received);
  }
}

}  // namespace integrity
