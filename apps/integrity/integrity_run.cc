#include "apps/integrity/integrity_run.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <uroce/verbs_flush.h>

#include "apps/progress/progress.h"

namespace integrity {
namespace {

constexpr std::chrono::seconds kStall{30};
constexpr std::uint8_t kScribble = 0xEE;
constexpr std::uint32_t kChainMax = 8;
constexpr int kPollBatch = 16;

constexpr ibv_wr_opcode kRequest[kKinds] = {IBV_WR_SEND,
                                            IBV_WR_SEND_WITH_IMM,
                                            IBV_WR_RDMA_WRITE,
                                            IBV_WR_RDMA_WRITE_WITH_IMM,
                                            IBV_WR_RDMA_READ,
                                            IBV_WR_ATOMIC_CMP_AND_SWP,
                                            IBV_WR_ATOMIC_FETCH_AND_ADD,
                                            IBV_WR_ATOMIC_WRITE,
                                            static_cast<ibv_wr_opcode>(UROCE_WR_FLUSH)};
// The remote part of a request.
void aim(ibv_send_wr& wr, const Operation& operation, const Address& target) {
  const std::uint64_t remote = target.region + operation.remote_offset;
  if (operation.kind == Kind::kCompareSwap || operation.kind == Kind::kFetchAdd) {
    wr.wr.atomic.remote_addr = remote;
    wr.wr.atomic.compare_add = operation.compare_add;
    wr.wr.atomic.swap = operation.swap;
    wr.wr.atomic.rkey = target.rkey;
  } else {
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = target.rkey;
  }
}

unsigned flags_of(const Operation& operation) {
  unsigned flags = 0;
  flags |= operation.signaled ? unsigned{IBV_SEND_SIGNALED} : 0;
  flags |= operation.fence ? unsigned{IBV_SEND_FENCE} : 0;
  flags |= operation.inlined ? unsigned{IBV_SEND_INLINE} : 0;
  flags |= operation.solicited ? unsigned{IBV_SEND_SOLICITED} : 0;
  return flags;
}

}  // namespace

Runner::Runner(Card& card, Link& link, const Limits& limits, std::uint64_t seed, bool leads)
    : Rounds(link),
      card_(card),
      limits_(limits),
      leads_(leads),
      mine_(limits, seed * 2 + (leads ? 0 : 1)),
      theirs_(limits, seed * 2 + (leads ? 1 : 0)),
      progress_(limits.queue_pairs),
      last_progress_(std::chrono::steady_clock::now()) {
  for (std::uint32_t qp = 0; qp < limits.queue_pairs; ++qp) {
    const auto& image = theirs_.plan(qp).region;
    std::copy(image.begin(), image.end(), card.endpoint(qp).region->data());
  }
  if (ibv_req_notify_cq(card.event_send, 0) != 0 || ibv_req_notify_cq(card.event_receive, 0) != 0) {
    die("ibv_req_notify_cq");
  }
}

std::uint64_t Runner::work_id(std::uint32_t qp, std::uint32_t index, bool receive) const {
  return (receive ? kReceiveBit : 0) | (current_round() & 0x7FFF) << 48U |
         std::uint64_t{qp} << 32U | index;
}

Totals Runner::run(std::uint64_t operations) {
  if (!meet()) {
    return {operations_, errors()};
  }
  uroce::Progress shown("operations");
  shown.begin(operations);
  while (operations_ < operations && !failed_) {
    if (leads_) {
      shown.at(operations_);
    }
    // Both sides plan both sides' rounds, with the same shares.
    const std::uint64_t left = operations - operations_;
    const std::uint64_t smaller = left / 2;
    const std::uint64_t planned = mine_.next_round(leads_ ? left - smaller : smaller) +
                                  theirs_.next_round(leads_ ? smaller : left - smaller);
    begin_round();
    if (limits_.windows && !open_windows()) {
      break;
    }
    if (!drive() || !meet() || (limits_.windows && !close_windows())) {
      break;
    }
    compare_all();
    operations_ += planned;
    end_round();
    if (!meet()) {
      break;
    }
  }
  return {operations_, errors()};
}

// Puts the sources in place, and receives for what the peer will send. In some rounds the receives
// come late, so that the peer is told to try again.
void Runner::begin_round() {
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
    Endpoint& endpoint = card_.endpoint(qp);
    const QpPlan& plan = mine_.plan(qp);
    for (Arena* arena : {endpoint.source.get(), endpoint.sink.get(), endpoint.receive.get()}) {
      arena->forget();
    }
    std::copy_n(plan.source.begin(), plan.source_used, endpoint.source->data());
    std::fill_n(endpoint.sink->data(), limits_.arena_size(), kSinkFill);
    std::fill_n(endpoint.receive->data(), limits_.arena_size(), kReceiveFill);
    progress_[qp] = {};
    const auto& coming = theirs_.plan(qp).operations;
    for (std::uint32_t i = 0; i < coming.size(); ++i) {
      if (coming[i].receives) {
        progress_[qp].receivers.push_back(i);
      }
    }
    if (current_round() % 8 != 7) {
      post_receives(qp, limits_.operations_max);
    }
  }
}

void Runner::post_receives(std::uint32_t qp, std::uint32_t count) {
  Progress& progress = progress_[qp];
  Endpoint& endpoint = card_.endpoint(qp);
  for (; count > 0 && progress.receives_posted < progress.receivers.size(); --count) {
    const std::uint32_t index = progress.receivers[progress.receives_posted++];
    std::vector<ibv_sge> sges;
    for (const Piece& piece : theirs_.plan(qp).operations[index].receive) {
      sges.push_back(endpoint.receive->sge(piece, endpoint.receive->mr()));
    }
    ibv_recv_wr wr{.wr_id = work_id(qp, index, true),
                   .next = nullptr,
                   .sg_list = sges.data(),
                   .num_sge = static_cast<int>(sges.size())};
    ibv_recv_wr* bad = nullptr;
    if ((errno = ibv_post_recv(endpoint.qp, &wr, &bad)) != 0) {
      die("ibv_post_recv");
    }
  }
}

// Posts a chain of the next operations, as many as the send queue has room for.
void Runner::post_sends(std::uint32_t qp) {
  Progress& progress = progress_[qp];
  Endpoint& endpoint = card_.endpoint(qp);
  const auto& operations = mine_.plan(qp).operations;
  ibv_send_wr chain[kChainMax] = {};
  std::vector<ibv_sge> sges(std::size_t{kChainMax} * limits_.sges_max);
  std::uint32_t count = 0;
  const std::uint32_t first = progress.posted;
  while (count < 1 + (first + current_round()) % kChainMax && first + count < operations.size() &&
         first + count - progress.retired < kSendDepth) {
    const Operation& operation = operations[first + count];
    if (operation.extended()) {
      break;  // those have calls of their own
    }
    ibv_send_wr& wr = chain[count];
    Arena& arena = operation.comes_back() ? *endpoint.sink : *endpoint.source;
    wr.wr_id = work_id(qp, first + count, false);
    wr.sg_list = &sges[std::size_t{count} * limits_.sges_max];
    wr.num_sge = static_cast<int>(operation.local.size());
    for (std::size_t i = 0; i < operation.local.size(); ++i) {
      ibv_mr* key =
          &arena == endpoint.source.get() && i % 2 == 1 ? endpoint.second_key : arena.mr();
      wr.sg_list[i] = arena.sge(operation.local[i], key);
    }
    wr.opcode = kRequest[static_cast<unsigned>(operation.kind)];
    wr.send_flags = flags_of(operation);
    wr.imm_data = operation.immediate;
    aim(wr, operation, endpoint.theirs);
    if (count > 0) {
      chain[count - 1].next = &wr;
    }
    ++count;
  }
  if (count == 0) {
    progress.posted += post_extended(qp, first);
    return;
  }
  ibv_send_wr* bad = nullptr;
  if ((errno = ibv_post_send(endpoint.qp, chain, &bad)) != 0) {
    die("ibv_post_send");
  }
  progress.posted += count;
  for (std::uint32_t i = first; i < first + count; ++i) {
    if (operations[i].inlined) {  // inline data is ours again as soon as it is posted
      for (const Piece& piece : operations[i].local) {
        std::memset(endpoint.source->data() + piece.offset, kScribble, piece.length);
      }
    }
  }
}

// Posts this operation if it is one that only the ibv_wr_* calls have, and there is room. How many
// it posted.
std::uint32_t Runner::post_extended(std::uint32_t qp, std::uint32_t index) {
  const auto& operations = mine_.plan(qp).operations;
  if (index >= operations.size() || index - progress_[qp].retired >= kSendDepth) {
    return 0;
  }
  const Operation& operation = operations[index];
  const Address& target = card_.endpoint(qp).theirs;
  const std::uint64_t remote = target.region + operation.remote_offset;
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(card_.endpoint(qp).qp);
  ibv_wr_start(extended);
  extended->wr_id = work_id(qp, index, false);
  extended->wr_flags = flags_of(operation);
  if (operation.kind == Kind::kFlush) {
    uroce_wr_flush(extended, target.rkey, remote, operation.length, UROCE_FLUSH_GLOBAL,
                   index % 2 == 0 ? UROCE_FLUSH_RANGE : UROCE_FLUSH_MR);
  } else {
    ibv_wr_atomic_write(extended, target.rkey, remote, &operation.swap);
  }
  if ((errno = ibv_wr_complete(extended)) != 0) {
    die("ibv_wr_complete");
  }
  return 1;
}

bool Runner::finished(std::uint32_t qp) const {
  const Progress& progress = progress_[qp];
  return progress.retired == mine_.plan(qp).operations.size() &&
         progress.received == progress.receivers.size();
}

bool Runner::all_finished() const {
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
    if (!finished(qp)) {
      return false;
    }
  }
  return true;
}

// How long to wait for an event: not at all while there is something to poll for or to post.
int Runner::patience_ms() const {
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
    const Progress& progress = progress_[qp];
    if ((qp % 2 == 0 && !finished(qp)) || progress.receives_posted < progress.receivers.size()) {
      return 0;
    }
  }
  constexpr int kSecond = 1'000;
  return kSecond;
}

bool Runner::drive() {
  last_progress_ = std::chrono::steady_clock::now();
  while (!all_finished() && !failed_) {
    for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
      post_sends(qp);
    }
    const bool moved = poll(card_.polled);
    const bool happened = !all_finished() && take_events(patience_ms());
    for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
      post_receives(qp, 2);
    }
    const auto now = std::chrono::steady_clock::now();
    if (moved || happened) {
      last_progress_ = now;
    } else if (now - last_progress_ > kStall) {
      wrong("nothing happened for 30 s");
      print_state();
      failed_ = true;
    }
  }
  return !failed_;
}

bool Runner::poll(ibv_cq* cq) {
  ibv_wc wcs[kPollBatch];
  const int count = ibv_poll_cq(cq, kPollBatch, wcs);
  if (count < 0) {
    wrong("ibv_poll_cq failed");
    failed_ = true;
  }
  for (int i = 0; i < count; ++i) {
    completed(wcs[i]);
  }
  return count > 0;
}

// Waits up to `timeout_ms` for an event, then does as the manual says: acknowledge, arm again, poll
// until nothing is left.
bool Runner::take_events(int timeout_ms) {
  pollfd waiting{.fd = card_.channel->fd, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, timeout_ms) <= 0) {
    return false;
  }
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(card_.channel, &cq, &context) != 0) {
    die("ibv_get_cq_event");
  }
  if (context != &card_ || (cq != card_.event_send && cq != card_.event_receive)) {
    wrong("an event of an unknown completion queue");
  }
  ibv_ack_cq_events(cq, 1);
  if (ibv_req_notify_cq(cq, 0) != 0) {
    die("ibv_req_notify_cq");
  }
  bool any = false;
  while (poll(cq)) {
    any = true;
  }
  return any;
}

}  // namespace integrity
