// Posts the programs' work: random requests, some deliberately wrong.

#include <algorithm>

#include "tests/sim/flow.h"

namespace uroce::sim {
namespace {

using abi::WrOpcode;

constexpr std::uint32_t kAtomicBytes = 8;
constexpr std::uint32_t kCounters = 8;
constexpr std::uint32_t kSlotSlack = 64;  // for messages that are deliberately too long
constexpr std::uint32_t kZoneMessages = 3;

}  // namespace

Flow::Flow(const FlowConfig& config, Random& random, Node& from, End& from_end, Node& to,
           End& to_end, SharedCounter& shared)
    : config_(config),
      own_sends_(config.content_seed),
      own_receives_(~config.content_seed),
      chances_(random),
      random_(config.content_seed == 0 ? random : own_sends_),
      receiving_(config.content_seed == 0 ? random : own_receives_),
      from_(from),
      from_end_(from_end),
      to_(to),
      to_end_(to_end),
      shared_(shared),
      local_(from.arena.reserve(std::size_t{config.send_entries} *
                                (config.message_bytes_max + kSlotSlack))),
      receives_(to.arena.reserve(std::size_t{config.recv_entries} * config.message_bytes_max)),
      zone_(to.arena.reserve(std::size_t{kZoneMessages} * config.message_bytes_max)),
      counters_(to.arena.reserve(kCounters * kAtomicBytes)) {}

std::size_t Flow::arena_bytes(const FlowConfig& config) {
  const std::size_t message = config.message_bytes_max + kSlotSlack;
  return message * (config.send_entries + config.recv_entries + kZoneMessages) + 4'096;
}

void Flow::act(Time now) {
  while (posted_receives_.size() < config_.recv_entries && config_.mishap != Mishap::kNoReceive &&
         to_end_.qp.state() != QpState::kErr && !chances_.chance(config_.receives_late)) {
    post_receive();
  }
  if (!chances_.chance(0.3)) {
    return;
  }
  for (std::uint32_t burst = chances_.range(1, 6);
       burst > 0 && !posted() && requests_.size() < config_.send_entries; --burst) {
    post_send(now);
  }
  from_.ring(from_end_);
}

void Flow::post_send(Time now) {
  if (next_ == config_.mishap_at) {
    strike(now);
  }
  Request request{.id = (std::uint64_t{from_end_.qp.config().qpn} << 32U) | next_};
  abi::SendWr wr{};
  wr.wr_id = request.id;
  make(&request, &wr);
  if (next_ == config_.mishap_at) {
    spoil(&request, &wr);
  }
  request.signaled = config_.signal_all || random_.chance(config_.signaled);
  wr.flags = static_cast<std::uint8_t>(wr.flags | (request.signaled ? abi::kSignaled : 0) |
                                       (random_.chance(0.2) ? abi::kSolicited : 0) |
                                       (random_.chance(0.05) ? abi::kFence : 0));
  const bool may_inline = wr.opcode <= WrOpcode::kSendWithImm && request.sges.size() <= 1 &&
                          request.length <= config_.inline_max && !request.spoilt;
  if (may_inline && random_.chance(0.5)) {
    const std::size_t at = request.sges.empty() ? 0 : from_.arena.offset(request.sges[0].address);
    from_end_.queues.post_inline(wr, std::span(from_.arena.memory).subspan(at, request.length));
  } else {
    from_end_.queues.post_send(wr, request.sges);
  }
  requests_.push_back(std::move(request));
  ++next_;
}

void Flow::post_receive() {
  const std::size_t slot = receives_posted_ % config_.recv_entries;
  const std::uint64_t address =
      to_.arena.address(receives_ + slot * std::size_t{config_.message_bytes_max});
  Receive receive{.id = 0xEE00'0000U + receives_posted_};
  receive.sges = split(address, config_.message_bytes_max, to_.key, receiving_);
  to_end_.queues.post_recv(receive.id, receive.sges);
  posted_receives_.push_back(std::move(receive));
  ++receives_posted_;
}

void Flow::make(Request* request, abi::SendWr* wr) {
  static constexpr WrOpcode kOpcodes[] = {
      WrOpcode::kSend,
      WrOpcode::kSend,
      WrOpcode::kSendWithImm,
      WrOpcode::kRdmaWrite,
      WrOpcode::kRdmaWrite,
      WrOpcode::kRdmaWriteWithImm,
      WrOpcode::kRdmaRead,
      WrOpcode::kRdmaRead,
      WrOpcode::kAtomicCmpAndSwp,
      WrOpcode::kRdmaRead,
      WrOpcode::kAtomicFetchAndAdd,
      WrOpcode::kAtomicWrite,
      WrOpcode::kFlush,
  };
  wr->opcode = random_.pick(kOpcodes);
  wr->rkey = to_.key;
  wr->immediate = static_cast<std::uint32_t>(random_.next());
  request->opcode = wr->opcode;
  switch (wr->opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
      return make_send(request, wr);
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return make_write(request, wr);
    case WrOpcode::kRdmaRead:
      return make_read(request, wr);
    case WrOpcode::kAtomicWrite:
      return make_atomic_write(request, wr);
    case WrOpcode::kFlush:
      return make_flush(request, wr);
    default:
      return make_atomic(request, wr);
  }
}

void Flow::make_send(Request* request, abi::SendWr* wr) {
  const bool spoil_it = next_ == config_.mishap_at && config_.mishap == Mishap::kTooLong;
  take_local(request, spoil_it ? config_.message_bytes_max + 1 : random_length());
  messages_.push_back({.bytes = fill_local(*request),
                       .length = request->length,
                       .immediate = wr->immediate,
                       .has_immediate = wr->opcode == WrOpcode::kSendWithImm,
                       .too_long = spoil_it});
}

void Flow::make_write(Request* request, abi::SendWr* wr) {
  take_local(request, random_length());
  request->remote =
      zone_ + random_.range(0, kZoneMessages * config_.message_bytes_max - request->length);
  wr->remote_address = to_.arena.address(request->remote);
  const std::vector<std::byte> bytes = fill_local(*request);
  if (read_under_way(request->remote, request->length)) {
    wr->flags |= abi::kFence;
  }
  if (next_ != config_.mishap_at || !spoils_requests()) {
    to_.arena.expect(request->remote, bytes);
  }
  if (wr->opcode == WrOpcode::kRdmaWriteWithImm) {
    messages_.push_back({.length = request->length,
                         .immediate = wr->immediate,
                         .has_immediate = true,
                         .writes = true});
  }
}

void Flow::make_read(Request* request, abi::SendWr* wr) {
  take_local(request, random_length());
  request->remote =
      zone_ + random_.range(0, kZoneMessages * config_.message_bytes_max - request->length);
  wr->remote_address = to_.arena.address(request->remote);
  const auto from = to_.arena.shadow.begin() + static_cast<std::ptrdiff_t>(request->remote);
  request->answer.assign(from, from + request->length);
}

void Flow::make_atomic(Request* request, abi::SendWr* wr) {
  take_local(request, kAtomicBytes);
  // The order of additions to a shared counter depends on timing.
  request->shared = wr->opcode == WrOpcode::kAtomicFetchAndAdd && random_.chance(0.5) &&
                    config_.content_seed == 0;
  if (request->shared) {
    request->remote = shared_.offset;
    wr->remote_address = to_.arena.address(shared_.offset);
    wr->atomic.compare_add = 1;
    return;
  }
  request->remote = counters_ + std::size_t{random_.range(0, kCounters - 1)} * kAtomicBytes;
  wr->remote_address = to_.arena.address(request->remote);
  std::uint64_t value = 0;
  std::memcpy(&value, to_.arena.shadow.data() + request->remote, sizeof(value));
  request->answer.resize(sizeof(value));
  std::memcpy(request->answer.data(), &value, sizeof(value));
  if (wr->opcode == WrOpcode::kAtomicFetchAndAdd) {
    wr->atomic.compare_add = random_.next();
    value += wr->atomic.compare_add;
  } else {
    wr->atomic.compare_add = random_.chance(0.5) ? value : random_.next();
    wr->atomic.swap = random_.next();
    value = wr->atomic.compare_add == value ? wr->atomic.swap : value;
  }
  if (next_ != config_.mishap_at || !spoils_requests()) {
    to_.arena.expect(request->remote, std::as_bytes(std::span(&value, 1)));
  }
}

void Flow::make_atomic_write(Request* request, abi::SendWr* wr) {
  take_local(request, kAtomicBytes);
  request->remote = counters_ + std::size_t{random_.range(0, kCounters - 1)} * kAtomicBytes;
  wr->remote_address = to_.arena.address(request->remote);
  const std::vector<std::byte> bytes = fill_local(*request);
  if (next_ != config_.mishap_at || !spoils_requests()) {
    to_.arena.expect(request->remote, bytes);
  }
}

// Transfers no payload: its length exists only on the wire.
void Flow::make_flush(Request* request, abi::SendWr* wr) {
  request->remote = zone_;
  wr->remote_address = to_.arena.address(zone_);
  wr->flush = {.placement = 1, .selectivity = random_.range(0, 1), .length = random_length()};
}

bool Flow::spoils_requests() const {
  switch (config_.mishap) {
    case Mishap::kBadRkey:
    case Mishap::kBadRange:
    case Mishap::kBadLkey:
    case Mishap::kBadOpcode:
      return true;
    default:
      return false;
  }
}

// Makes the request fail. If it can't fail in that way (an inline SEND has no key), it stays as it
// is, but its effects are treated as uncertain.
void Flow::spoil(Request* request, abi::SendWr* wr) {
  const bool remote = wr->opcode != WrOpcode::kSend && wr->opcode != WrOpcode::kSendWithImm;
  const bool has_length = request->length != 0;
  switch (config_.mishap) {
    case Mishap::kBadRkey:
      request->spoilt = remote && has_length;
      request->status = abi::WcStatus::kRemAccessErr;
      wr->rkey ^= request->spoilt ? 0x100U : 0U;
      break;
    case Mishap::kBadRange:
      request->spoilt = remote && has_length;
      request->status =
          to_.has_all_memory() ? abi::WcStatus::kRemOpErr : abi::WcStatus::kRemAccessErr;
      wr->remote_address = request->spoilt ? beyond(request->length) : wr->remote_address;
      break;
    case Mishap::kBadLkey:
      request->spoilt = has_length;
      request->status = abi::WcStatus::kLocProtErr;
      if (has_length) {
        request->sges.back().lkey ^= 0x100U;
      }
      break;
    case Mishap::kBadOpcode:
      request->spoilt = true;
      request->status = abi::WcStatus::kLocQpOpErr;
      wr->opcode = WrOpcode::kTso;
      break;
    case Mishap::kTooLong:
      request->spoilt = !remote;
      request->status = abi::WcStatus::kRemInvReqErr;
      break;
    default:
      return;
  }
  if (spoils_requests()) {
    give_up_on(*request);
    if (request->spoilt && !messages_.empty() && message_of(*request)) {
      messages_.pop_back();
    }
  }
}

// A range that begins in the peer's region and ends outside; or, if all memory is the region, an
// unmapped one.
std::uint64_t Flow::beyond(std::uint32_t length) const {
  return to_.has_all_memory() ? to_.arena.address(to_.arena.pages() * Arena::kPage)
                              : to_.arena.address(to_.arena.memory.size()) - length / 16 * 8;
}

// Control changes a state, as the mishap requires.
void Flow::strike(Time now) {
  QpAttributes attributes;
  attributes.state = QpState::kErr;
  if (config_.mishap == Mishap::kSenderError) {
    from_.modify(from_end_, attributes, kQpMaskState, now);
  } else if (config_.mishap == Mishap::kPeerError) {
    to_.modify(to_end_, attributes, kQpMaskState, now);
  }
}

bool Flow::message_of(const Request& request) {
  return request.opcode == WrOpcode::kSend || request.opcode == WrOpcode::kSendWithImm ||
         request.opcode == WrOpcode::kRdmaWriteWithImm;
}

void Flow::take_local(Request* request, std::uint32_t length) {
  const std::size_t slot = next_ % config_.send_entries;
  const std::size_t room = config_.message_bytes_max + kSlotSlack;
  const std::size_t at = slot * room + random_.range(0, static_cast<std::uint32_t>(room) - length);
  request->length = length;
  request->sges = split(from_.arena.address(local_ + at), length, from_.key, random_);
}

std::vector<std::byte> Flow::fill_local(const Request& request) {
  std::vector<std::byte> bytes(request.length);
  random_.fill(bytes);
  if (!bytes.empty()) {
    from_.arena.write(from_.arena.offset(request.sges[0].address), bytes);
  }
  return bytes;
}

// A scatter-gather list for a contiguous range, so that a misplaced piece is detected.
std::vector<abi::Sge> Flow::split(std::uint64_t address, std::uint32_t length, std::uint32_t key,
                                  Random& random) const {
  std::vector<abi::Sge> list;
  std::uint32_t left = length;
  for (std::uint32_t pieces = random.range(1, config_.sge_max); left > 0; --pieces) {
    const std::uint32_t piece = pieces <= 1 ? left : random.range(0, left);
    list.push_back({address, piece, key});
    address += piece;
    left -= piece;
  }
  return list;
}

std::uint32_t Flow::random_length() {
  static constexpr std::uint32_t kPowers[] = {0, 1, 4, 256, 512, 1'024, 2'048, 4'096, 8'192};
  const std::uint32_t max = config_.message_bytes_max;
  switch (random_.range(0, 3)) {
    case 0:
      return random_.range(0, std::min(64U, max));
    case 1:
      return std::min(max, random_.pick(kPowers) + random_.range(0, 1));
    case 2:
      return random_.range(0, max / 8);
    default:
      return random_.range(0, max);
  }
}

bool Flow::read_under_way(std::size_t offset, std::uint32_t length) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& request) {
    return request.opcode == WrOpcode::kRdmaRead && request.remote < offset + length &&
           offset < request.remote + request.length;
  });
}

}  // namespace uroce::sim
