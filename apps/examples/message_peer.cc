#include "apps/examples/message_peer.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::uint32_t kDepth = 32;                       // messages in each direction
constexpr std::uint32_t kPollsBetweenLooks = 1000;         // at the event channel
constexpr std::uint32_t kWindowMax = kDepth / 4;           // so that an answer always has a credit
constexpr std::uint32_t kSendsOfTransfer = kFragmentsMax;  // one write a fragment
constexpr std::uint64_t kWriteTag = 1ULL << 32U;           // a wr_id that is no slot
constexpr int kReceiveAccess = IBV_ACCESS_LOCAL_WRITE;
constexpr std::uint64_t kReceiveTag = 1ULL << 33U;  // plus the slot

}  // namespace

void check(bool fine, const char* what) {
  if (!fine) {
    std::perror(what);
    std::exit(1);
  }
}

rdma_cm_event* expect_event(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  if (event->event != type) {
    std::fprintf(stderr, "%s came (status %d), not %s\n", rdma_event_str(event->event),
                 event->status, rdma_event_str(type));
    std::exit(1);
  }
  return event;
}

Peer::Peer(rdma_cm_id* id, std::uint32_t sends_wished) : id_(id), sends_(sends_wished) {
  for (; id_->qp == nullptr; sends_ /= 2) {
    check(sends_ > kDepth + kSendsOfTransfer, "no queue pair is small enough for this device");
    cq_ = ibv_create_cq(id_->verbs, static_cast<int>(sends_ + kDepth), nullptr, nullptr, 0);
    check(cq_ != nullptr, "ibv_create_cq");
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap.max_send_wr = sends_;
    attr.cap.max_recv_wr = kDepth;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.qp_type = IBV_QPT_RC;
    if (rdma_create_qp(id_, nullptr, &attr) == 0) {
      sends_ = attr.cap.max_send_wr;
      break;
    }
    ibv_destroy_cq(cq_);
  }
  inbox_ = std::make_unique<Message[]>(kDepth);
  outbox_ = std::make_unique<Message[]>(kDepth);
  constexpr std::size_t kBytes = kDepth * sizeof(Message);
  inbox_region_ = ibv_reg_mr(id_->pd, inbox_.get(), kBytes, kReceiveAccess);
  outbox_region_ = ibv_reg_mr(id_->pd, outbox_.get(), kBytes, 0);
  check(inbox_region_ != nullptr && outbox_region_ != nullptr, "ibv_reg_mr");
  for (std::uint32_t slot = 0; slot < kDepth; ++slot) {
    post_receive(slot);
    free_slots_.push_back(slot);
  }
}

Peer::~Peer() {
  rdma_destroy_qp(id_);
  ibv_dereg_mr(inbox_region_);
  ibv_dereg_mr(outbox_region_);
  ibv_destroy_cq(cq_);
}

Hello Peer::hello() const { return {.depth = kDepth}; }

std::uint32_t Peer::window() const {
  const std::uint32_t fit = (sends_ - kDepth) / kSendsOfTransfer;
  return fit < kWindowMax ? fit : kWindowMax;
}

void Peer::post_receive(std::uint32_t slot) {
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(&inbox_[slot]),
              .length = sizeof(Message),
              .lkey = inbox_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveTag + slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  check(ibv_post_recv(id_->qp, &request, &bad) == 0, "ibv_post_recv");
}

void Peer::send(const Message& message) {
  while (credits_ == 0 || free_slots_.empty()) {
    // The window keeps messages from coming here that can't be taken now.
    check(poll([](const Message&) { check(false, "a message came out of turn"); }),
          "the peer left");
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  --credits_;
  Message& out = outbox_[slot];
  std::memcpy(&out, &message, sizeof(out));
  out.credits = owed_;
  owed_ = 0;
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(&out),
              .length = sizeof(Message),
              .lkey = outbox_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(id_->qp, &request, &bad) == 0, "ibv_post_send");
}

void Peer::write(const std::byte* buffer, std::uint32_t lkey, const Message& sink) {
  bool fits = sink.fragment_count != 0 && sink.fragment_count <= kFragmentsMax;
  for (std::uint32_t i = 0; fits && i < sink.fragment_count; ++i) {
    fits = sink.fragments[i].bytes <= kFragmentBytes;
  }
  errno = EBADMSG;
  check(fits, "the peer's fragments");
  std::vector<ibv_sge> sges(sink.fragment_count);
  std::vector<ibv_send_wr> requests(sink.fragment_count);
  for (std::uint32_t i = 0; i < sink.fragment_count; ++i) {
    const Fragment& fragment = sink.fragments[i];
    sges[i] = {.addr = reinterpret_cast<std::uint64_t>(buffer + std::size_t{i} * kFragmentBytes),
               .length = fragment.bytes,
               .lkey = lkey};
    ibv_send_wr& request = requests[i];
    request.wr_id = kWriteTag;
    request.sg_list = &sges[i];
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = fragment.address;
    request.wr.rdma.rkey = fragment.rkey;
    request.next = i + 1 < sink.fragment_count ? &requests[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(id_->qp, requests.data(), &bad) == 0, "ibv_post_send");
}

bool Peer::poll(const std::function<void(const Message&)>& take) {
  ibv_wc completion{};
  const int count = ibv_poll_cq(cq_, 1, &completion);
  check(count >= 0, "ibv_poll_cq");
  if (count == 0) {
    return ++idle_polls_ % kPollsBetweenLooks != 0 || connected();
  }
  if (completion.status != IBV_WC_SUCCESS) {
    std::fprintf(stderr, "%s\n", ibv_wc_status_str(completion.status));
    return connected();
  }
  if ((completion.wr_id & kReceiveTag) == 0) {
    free_slots_.push_back(static_cast<std::uint32_t>(completion.wr_id));
    return true;
  }
  const auto slot = static_cast<std::uint32_t>(completion.wr_id - kReceiveTag);
  Message message;
  std::memcpy(&message, &inbox_[slot], sizeof(message));
  post_receive(slot);
  ++owed_;
  credits_ += message.credits;
  take(message);
  return true;
}

// An established connection has no other events than its end.
bool Peer::connected() {
  pollfd channel{.fd = id_->channel->fd, .events = POLLIN, .revents = 0};
  return ::poll(&channel, 1, 0) == 0;
}
