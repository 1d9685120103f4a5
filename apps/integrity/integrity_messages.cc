#include "apps/integrity/integrity_messages.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/progress/progress.h"

namespace integrity {
namespace {

constexpr std::chrono::milliseconds kSilence{200};  // after which what is missing is lost
constexpr std::chrono::seconds kStall{30};
constexpr std::uint64_t kReceive = 1ULL << 63U;
constexpr std::uint8_t kUntouched = 0xA5;
constexpr int kPollBatch = 32;
constexpr std::uint32_t kMtuUnit = 128;  // shifted by an enum ibv_mtu: 256 to 4096

// In front of every message. `round` is also what is left of an older message in the same place.
struct Head {
  std::uint32_t round, qp, number, length;
};
static_assert(sizeof(Head) <= kMessageSizeMin);

std::uint64_t mix(std::uint64_t value) {  // splitmix64
  value += 0x9E37'79B9'7F4A'7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58'476D'1CE4'E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D0'49BB'1331'11EBULL;
  return value ^ (value >> 31U);
}

bool is_write(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool has_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

}  // namespace

MessageRunner::MessageRunner(MessageCard& card, Link& link, std::uint64_t seed, bool leads)
    : Rounds(link), card_(card), seed_(seed), leads_(leads), progress_(card.limits().queue_pairs) {
  for (Progress& progress : progress_) {
    for (std::uint32_t slot = 0; slot < card.limits().receives(); ++slot) {
      progress.free_slots.push_back(slot);
    }
  }
}

// What this side (or the peer) sends as a message.
MessageRunner::Message MessageRunner::message(bool mine, std::uint64_t round, std::uint32_t qp,
                                              std::uint32_t number) const {
  const MessageLimits& limits = card_.limits();
  const std::uint64_t dice =
      mix(seed_ * 4 + (mine == leads_ ? 1 : 0) + mix(round << 32U | qp << 16U | number));
  constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                        IBV_WR_RDMA_WRITE_WITH_IMM};
  const std::uint32_t span = limits.size_max - static_cast<std::uint32_t>(sizeof(Head)) + 1;
  // Half of them short.
  const std::uint32_t room = (dice & 1U) != 0 ? std::min(span, 512U) : span;
  return {.opcode = kOpcodes[(dice >> 8U) % (limits.datagrams() ? 2 : 4)],
          .length = static_cast<std::uint32_t>(sizeof(Head) + (dice >> 16U) % room),
          .target = limits.datagrams() || limits.xrc()
                        ? static_cast<std::uint32_t>((qp + round) % limits.queue_pairs)
                        : qp};
}

void MessageRunner::fill(std::uint8_t* bytes, bool mine, std::uint64_t round, std::uint32_t qp,
                         std::uint32_t number, std::uint32_t length) const {
  const Head head{static_cast<std::uint32_t>(round), qp, number, length};
  std::memcpy(bytes, &head, sizeof(head));
  std::uint64_t state =
      mix(seed_ + (mine == leads_ ? 7 : 8) + mix(round << 32U | qp << 16U | number));
  for (std::uint32_t i = sizeof(head); i < length; ++i) {
    state = state * 6'364'136'223'846'793'005ULL + 1'442'695'040'888'963'407ULL;
    bytes[i] = static_cast<std::uint8_t>(state >> 56U);
  }
}

MessageTotals MessageRunner::run(std::uint64_t operations) {
  const std::uint64_t of_a_round = 2ULL * kRoundMessages * progress_.size();
  uroce::Progress shown("operations");
  shown.begin(operations);
  while (totals_.operations < operations && !failed_) {
    if (leads_) {
      shown.at(totals_.operations);
    }
    begin_round();
    if (!meet()) {
      break;
    }
    if (!send_all() || !meet()) {
      break;
    }
    drain();
    account();
    totals_.operations += of_a_round;
    end_round();
  }
  if (card_.limits().reliable() && totals_.lost + totals_.repeated + totals_.late != 0) {
    wrong("a reliable service lost, repeated or delayed messages");
  } else if (totals_.lost * 2 > totals_.operations) {
    wrong("more than half of the messages got lost");
  }
  totals_.errors = errors();
  return totals_;
}

// Sends what the round has. On a reliable service it also takes all that comes: the peer can't end
// its round before it was given the receives for it.
bool MessageRunner::send_all() {
  auto last = std::chrono::steady_clock::now();
  for (bool done = false; !done && !failed_;) {
    done = true;
    for (std::uint32_t qp = 0; qp < progress_.size(); ++qp) {
      post(qp);
      const Progress& progress = progress_[qp];
      done &= progress.completed == kRoundMessages;
      done &= !card_.limits().reliable() || progress.told == progress.telling;
    }
    const auto now = std::chrono::steady_clock::now();
    if (poll()) {
      last = now;
    } else if (now - last > kStall) {
      wrong("nothing happened for 30 s");
      failed_ = true;
    }
  }
  return !failed_;
}

void MessageRunner::begin_round() {
  for (std::uint32_t qp = 0; qp < progress_.size(); ++qp) {
    Progress& progress = progress_[qp];
    MessageEndpoint& endpoint = card_.endpoint(qp);
    progress.posted = progress.completed = progress.told = progress.telling = 0;
    for (std::uint32_t number = 0; number < kRoundMessages; ++number) {  // but for plain WRITEs
      progress.telling +=
          message(false, current_round(), qp, number).opcode != IBV_WR_RDMA_WRITE ? 1U : 0U;
    }
    progress.seen.assign(kRoundMessages, false);
    std::memset(endpoint.region->data(), kUntouched, std::size_t{kRoundMessages} * card_.stride());
    for (const std::uint32_t slot : progress.free_slots) {
      post_receive(qp, slot);
    }
    progress.free_slots.clear();
  }
}

void MessageRunner::post_receive(std::uint32_t owner, std::uint32_t slot) {
  card_.post_receive(owner, slot, kReceive | std::uint64_t{owner} << 32U | slot);
}

// Posts the next messages of a queue pair, as many as there is room for.
void MessageRunner::post(std::uint32_t qp) {
  Progress& progress = progress_[qp];
  MessageEndpoint& endpoint = card_.endpoint(qp);
  while (progress.posted < kRoundMessages && progress.posted - progress.completed < kSendsMax) {
    const std::uint32_t number = progress.posted++;
    const Message what = message(true, current_round(), qp, number);
    const Piece piece{number % kSendsMax * card_.stride(), what.length};
    fill(endpoint.source->data() + piece.offset, true, current_round(), qp, number, what.length);
    ibv_sge sge = endpoint.source->sge(piece, endpoint.source->mr());
    ibv_send_wr wr{};
    wr.wr_id = std::uint64_t{qp} << 32U | number;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = what.opcode;
    wr.imm_data = number;
    if (card_.limits().datagrams()) {
      wr.wr.ud.ah = endpoint.peer;
      wr.wr.ud.remote_qpn = card_.endpoint(what.target).theirs.qpn;
      wr.wr.ud.remote_qkey = kQkey;
    } else {
      wr.wr.rdma.remote_addr = endpoint.theirs.region + std::uint64_t{number} * card_.stride();
      wr.wr.rdma.rkey = endpoint.theirs.rkey;
    }
    if (card_.limits().xrc()) {
      wr.qp_type.xrc.remote_srqn = card_.endpoint(what.target).theirs.srqn;
    }
    ibv_send_wr* bad = nullptr;
    if ((errno = ibv_post_send(endpoint.qp, &wr, &bad)) != 0) {
      die("ibv_post_send");
    }
  }
}

// Takes completions; false if there are none.
bool MessageRunner::poll() {
  ibv_wc wcs[kPollBatch];
  const int count = ibv_poll_cq(card_.cq, kPollBatch, wcs);
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = wcs[i];
    const auto qp = static_cast<std::uint32_t>(wc.wr_id >> 32U) & 0xFFFFU;
    const auto low = static_cast<std::uint32_t>(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) {
      wrong("qp %u: %s (vendor error %u)", qp, ibv_wc_status_str(wc.status), wc.vendor_err);
      failed_ = true;
    } else if ((wc.wr_id & kReceive) != 0) {
      received(qp, low, wc);
    } else if (low != progress_[qp].completed++) {
      wrong("qp %u: message %u completed out of order", qp, low);
    }
  }
  failed_ |= count < 0;
  return count > 0;
}

// Which of our queue pairs receives as this one.
std::uint32_t MessageRunner::index_of(std::uint32_t qpn) {
  std::uint32_t qp = 0;
  while (qp < progress_.size() && card_.endpoint(qp).mine.receiving_qpn != qpn) {
    ++qp;
  }
  return qp;
}

void MessageRunner::received(std::uint32_t owner, std::uint32_t slot, const ibv_wc& wc) {
  const std::uint32_t at_qp = index_of(wc.qp_num);
  if (at_qp >= progress_.size()) {
    wrong("a receive completed of queue pair %#x, which isn't ours", wc.qp_num);
    return;
  }
  const std::uint8_t* bytes =
      card_.endpoint(owner).receives->data() + std::size_t{slot} * card_.stride();
  std::uint32_t length = wc.byte_len;
  if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    const std::uint32_t number = std::min(wc.imm_data, kRoundMessages - 1);
    bytes = card_.endpoint(at_qp).region->data() + std::size_t{number} * card_.stride();
  } else if (card_.limits().datagrams()) {
    if ((wc.wc_flags & IBV_WC_GRH) == 0 || length < kGrhBytes) {
      wrong("qp %u: a datagram without a GRH", at_qp);
      return;
    }
    bytes += kGrhBytes;
    length -= kGrhBytes;
  }
  check(at_qp, owner, bytes, wc, length);
  if (card_.limits().reliable()) {
    post_receive(owner, slot);
  } else {
    progress_[owner].free_slots.push_back(slot);
  }
}

void MessageRunner::check(std::uint32_t at_qp, std::uint32_t owner, const std::uint8_t* bytes,
                          const ibv_wc& wc, std::uint32_t length) {
  Head head{};
  std::memcpy(&head, bytes, sizeof(head));
  if (length < sizeof(head) || head.qp >= progress_.size() || head.number >= kRoundMessages ||
      head.round > current_round()) {
    wrong("qp %u: %u bytes that are no message", at_qp, length);
    return;
  }
  const MessageLimits& limits = card_.limits();
  const Message what = message(false, head.round, head.qp, head.number);
  const bool immediate = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  const bool any_buffer = limits.service == Service::kRcSrq;
  if (what.length != length || (limits.datagrams() ? what.target : head.qp) != at_qp ||
      (!any_buffer && what.target != owner) || immediate != has_immediate(what.opcode) ||
      (immediate && wc.imm_data != head.number) ||
      is_write(what.opcode) != (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)) {
    wrong("qp %u: message %u of round %u isn't as it was sent", at_qp, head.number, head.round);
    return;
  }
  if (limits.datagrams() && wc.src_qp != card_.endpoint(head.qp).theirs.qpn) {
    wrong("qp %u: a datagram of queue pair %#x, not %#x", at_qp, wc.src_qp,
          card_.endpoint(head.qp).theirs.qpn);
  }
  std::vector<std::uint8_t> expected(length);
  fill(expected.data(), false, head.round, head.qp, head.number, length);
  if (std::memcmp(expected.data(), bytes, length) != 0) {
    wrong("qp %u: message %u of round %u: wrong bytes", at_qp, head.number, head.round);
  }
  note(head.round, head.qp, head.number);
}

// The peer's message came, says a completion.
void MessageRunner::note(std::uint64_t round, std::uint32_t qp, std::uint32_t number) {
  if (round != current_round()) {
    ++totals_.late;  // was counted as lost in its round
  } else if (progress_[qp].seen[number]) {
    ++totals_.repeated;
  } else {
    progress_[qp].seen[number] = true;
    ++progress_[qp].told;
  }
}

// Nobody says that a plain WRITE came: packet by packet its place holds the message, or what was
// there before. `verdict`: all have come that will; else one may be halfway.
void MessageRunner::check_region(std::uint32_t qp, bool verdict) {
  MessageEndpoint& endpoint = card_.endpoint(qp);
  const std::uint32_t packet = kMtuUnit
                               << std::min(endpoint.mine.mtu, endpoint.theirs.mtu);  // enum ibv_mtu
  for (std::uint32_t number = 0; number < kRoundMessages; ++number) {
    const Message what = message(false, current_round(), qp, number);
    if (what.opcode != IBV_WR_RDMA_WRITE || progress_[qp].seen[number]) {
      continue;
    }
    const std::vector<std::uint8_t> now = place_after(qp, number, current_round());
    const std::vector<std::uint8_t> before =
        current_round() > 0 ? place_after(qp, number, current_round() - 1) : place_untouched();
    const std::uint8_t* place = endpoint.region->data() + std::size_t{number} * card_.stride();
    bool whole = true;
    for (std::uint32_t at = 0; at < what.length; at += packet) {
      const std::uint32_t length = std::min(packet, what.length - at);
      const bool written = std::memcmp(place + at, &now[at], length) == 0;
      whole &= written;
      const bool missing =
          std::memcmp(place + at, place_untouched().data(), length) == 0 ||
          std::memcmp(place + at, &before[at], length) == 0;  // came a round too late
      if (verdict && !written && !missing) {
        wrong("qp %u: WRITE %u: wrong bytes from %u on", qp, number, at);
      }
    }
    progress_[qp].seen[number] = whole;
  }
}

std::vector<std::uint8_t> MessageRunner::place_untouched() const {
  return std::vector<std::uint8_t>(card_.stride(), kUntouched);
}

// What a message's place in the region holds if the message of that round came, and nothing else.
std::vector<std::uint8_t> MessageRunner::place_after(std::uint32_t qp, std::uint32_t number,
                                                     std::uint64_t round) const {
  std::vector<std::uint8_t> bytes = place_untouched();
  const Message what = message(false, round, qp, number);
  if (is_write(what.opcode)) {
    fill(bytes.data(), false, round, qp, number, what.length);
  }
  return bytes;
}

void MessageRunner::drain() {
  auto last = std::chrono::steady_clock::now();
  const auto complete = [this] {
    return std::all_of(progress_.begin(), progress_.end(), [](const Progress& progress) {
      return std::count(progress.seen.begin(), progress.seen.end(), false) == 0;
    });
  };
  while (!failed_ && !complete() && std::chrono::steady_clock::now() - last < kSilence) {
    if (poll()) {
      last = std::chrono::steady_clock::now();
    }
    check_regions(false);
  }
  check_regions(true);
}

void MessageRunner::check_regions(bool verdict) {
  for (std::uint32_t qp = 0; qp < progress_.size() && !card_.limits().datagrams(); ++qp) {
    check_region(qp, verdict);
  }
}

void MessageRunner::account() {
  for (const Progress& progress : progress_) {
    totals_.lost +=
        static_cast<std::uint64_t>(std::count(progress.seen.begin(), progress.seen.end(), false));
  }
}

}  // namespace integrity
