#include "tests/unit/qp/qp_pair.h"

#include <unistd.h>

#include <algorithm>
#include <random>

#include "mmu/proc_mem/proc_mem.h"
#include "mmu/proc_mem/proc_mem_thread.h"
#include "tests/reasons/reasons.h"

namespace uroce::test {
namespace {

constexpr PdId kPd = 7;

}  // namespace

void HeapFrame::copy(const Frame& other) {
  std::copy_n(other.data, other.length, bytes.data());
  frame.length = other.length;
}

bool Endpoint::announced(AsyncEvent event) const {
  return std::any_of(events.entries.begin(), events.entries.end(),
                     [&](const EventLog::Entry& entry) { return entry.event == event; });
}

Region::Config Endpoint::whole_memory(std::uint32_t access) {
  Region::Config region;
  region.pd = kPd;
  region.access = access;
  region.iova = address();
  region.length = memory.size();
  region.program_address = address();
  region.pieces = {
      {.start = 0, .length = memory.size(), .host = memory.data(), .remote_address = address()}};
  return region;
}

std::uint32_t Endpoint::add_region() {
  return keys_->add(std::make_unique<Region>(whole_memory(kAccessLocalWrite))).value();
}

Endpoint::Endpoint(const EndpointConfig& config)
    : Queues(config.queues),
      memory(config.memory_bytes),
      own_keys_(quiescence_, 1'024, 1),
      keys_(config.keys == nullptr ? &own_keys_ : config.keys) {
  Region::Config region = whole_memory(config.access);
  if (config.slow_way) {
    region.pieces[0].host = nullptr;
    const auto file = std::make_shared<const UniqueFd>(
        std::move(open_proc_mem(ProgramProcess(::getpid(), ::getuid(), ::getgid())).value()));
    region.remote = file->get();
    region.program = ProcMemThread::start(file, {.uid = ::getuid()}).value();
    program_ = region.program;
    region.holds.push_back(file);
  }
  key_ = keys_->add(std::make_unique<Region>(std::move(region))).value();
  QpConfig qp;
  qp.qpn = config.qpn;
  qp.type = config.type;
  qp.pd = kPd;
  qp.signal_all = config.signal_all;
  qp.user = config.user;
  qp.shares_network = config.shares_network;
  qp.measures_latency = config.measures_latency;
  qp.congestion = config.congestion;
  attach(&qp);
  qp_ = std::make_unique<Qp>(qp);
}

void Endpoint::modify(const QpAttributes& attributes, std::uint32_t mask, Time now) {
  TxBatch tx;
  Turn lent = turn(now, tx);
  qp_->modify(attributes, mask, lent);
}

void Endpoint::to_error(Time now) { modify({.state = QpState::kErr}, kQpMaskState, now); }

void Endpoint::ring(Time now) {
  TxBatch tx;
  Turn lent = turn(now, tx);
  qp_->on_doorbell(lent);
}

namespace {

EndpointConfig in_daemon_of(Endpoint& other, const PairConfig& config) {
  EndpointConfig end = config.b;
  if (config.shared_mac) {
    end.keys = &other.keys();
  }
  return end;
}

}  // namespace

QpPair::QpPair(const PairConfig& config)
    : a(config.a), b(in_daemon_of(a, config)), config_(config) {
  connect(a);
  connect(b);
}

QpAttributes QpPair::attributes(bool of_a) const {
  QpAttributes attributes;
  attributes.path_mtu = config_.path_mtu;
  attributes.rq_psn = of_a ? config_.psn_b : config_.psn_a;
  attributes.sq_psn = of_a ? config_.psn_a : config_.psn_b;
  attributes.dest_qpn = of_a ? config_.b.qpn : config_.a.qpn;
  attributes.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  attributes.max_rd_atomic = config_.max_rd_atomic;
  attributes.max_dest_rd_atomic = config_.max_rd_atomic;
  attributes.min_rnr_timer = config_.min_rnr_timer;
  attributes.timeout = config_.timeout;
  attributes.retry_cnt = config_.retry_cnt;
  attributes.rnr_retry = config_.rnr_retry;
  attributes.path.vlan = config_.vlan;
  attributes.path.source_mac = {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(of_a ? 1 : 2)}};
  attributes.path.destination_mac = {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(of_a ? 2 : 1)}};
  if (config_.shared_mac) {
    attributes.path.source_mac = attributes.path.destination_mac = *config_.shared_mac;
  }
  attributes.path.source_gid = parse_ip(of_a ? "10.0.0.1" : "10.0.0.2").value();
  attributes.path.destination_gid = parse_ip(of_a ? "10.0.0.2" : "10.0.0.1").value();
  return attributes;
}

void QpPair::connect(Endpoint& end) {
  constexpr std::uint32_t kAll = ~0U;
  QpAttributes attributes = this->attributes(&end == &a);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    attributes.state = state;
    end.modify(attributes, kAll, now);
  }
}

QpPair::Frames QpPair::transmit(Endpoint& from, std::size_t frames_max) {
  Frames lent;
  TxBatch tx;
  for (std::size_t i = 0; i < frames_max; ++i) {
    lent.push_back(std::make_unique<HeapFrame>());
    tx.put_back(&lent.back()->frame);
  }
  Turn turn = from.turn(now, tx);
  from.qp().on_doorbell(turn);
  while (from.qp().has_work() && tx.room() != 0) {
    from.qp().transmit(turn, 64 * 1'024);
  }
  Frames sent;
  for (std::uint32_t i = 0; i < tx.ready_count(); ++i) {
    const auto found = std::find_if(lent.begin(), lent.end(), [&](const auto& frame) {
      return frame != nullptr && &frame->frame == tx.ready()[i];
    });
    sent.push_back(std::move(*found));
  }
  return sent;
}

Drop QpPair::deliver(Endpoint& to, HeapFrame& frame) {
  const Drop drop = parse(frame.frame);
  if (drop != Drop::kNone) {
    return drop;
  }
  TxBatch tx;
  Turn turn = to.turn(now, tx);
  Drop dropped = Drop::kNone;
  note_received(frame.frame.packet);
  step = to.qp().receive(frame.frame, turn, &dropped);
  note(dropped);
  return dropped;
}

std::unique_ptr<HeapFrame> QpPair::forge(Endpoint& to, const Headers& headers,
                                         std::span<const std::byte> payload) const {
  const bool to_a = &to == &a;
  auto frame = std::make_unique<HeapFrame>();
  Headers addressed = headers;
  addressed.dest_qpn = to.qp().config().qpn;
  FrameWriter writer(frame->frame, FrameTemplate(attributes(!to_a).path), addressed,
                     static_cast<std::uint32_t>(payload.size()), 1);
  writer.append(payload.data(), payload.size());
  writer.finish();
  return frame;
}

void QpPair::exchange(const Filter& lost) {
  bool busy = true;
  while (busy) {
    busy = false;
    for (const bool from_a : {true, false}) {
      for (auto& frame : transmit(from_a ? a : b)) {
        busy = true;
        UROCE_CHECK(parse(frame->frame) == Drop::kNone);
        note_sent(frame->frame.packet);
        if (!lost || !lost(frame->frame.packet, from_a)) {
          give(from_a ? b : a, std::move(frame));
        }
      }
    }
  }
}

// What the engine does (out_of_order.cc).
void QpPair::drop_out_of_order(Endpoint& end) {
  end.qp().on_out_of_order_dropped();
  out_of_order_.erase({&end, false});
  out_of_order_.erase({&end, true});
}

void QpPair::give(Endpoint& to, std::unique_ptr<HeapFrame> frame) {
  (void)deliver(to, *frame);
  Frames& out_of_order = out_of_order_[{&to, opcode_info(frame->frame.packet.opcode).request}];
  if (step == Step::kOutOfOrder) {
    out_of_order.push_back(std::move(frame));
    std::sort(out_of_order.begin(), out_of_order.end(), [](const auto& left, const auto& right) {
      return psn_difference(left->frame.packet.psn, right->frame.packet.psn) < 0;
    });
    return;
  }
  to.again = true;
  while (!out_of_order.empty()) {
    (void)deliver(to, *out_of_order.front());
    if (step == Step::kOutOfOrder) {
      break;
    }
    out_of_order.erase(out_of_order.begin());
  }
  to.again = false;
}

bool QpPair::next_deadline() {
  const Time due = std::min(a.qp().deadline(), b.qp().deadline());
  if (due == kNever) {
    return false;
  }
  now = std::max(now, due);
  for (Endpoint* end : {&a, &b}) {
    TxBatch tx;
    Turn turn = end->turn(now, tx);
    if (end->qp().deadline() <= now) {
      end->qp().on_deadline(turn);
    }
  }
  return true;
}

void QpPair::run(const Filter& lost, int rounds) {
  exchange(lost);
  for (int i = 0; i < rounds && next_deadline(); ++i) {
    exchange(lost);
  }
}

abi::SendWr send_wr(std::uint64_t wr_id, abi::WrOpcode opcode, std::uint8_t flags) {
  abi::SendWr wr{};
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.flags = flags;
  return wr;
}

abi::SendWr rdma_wr(std::uint64_t wr_id, abi::WrOpcode opcode, const Endpoint& remote,
                    std::size_t offset, std::uint8_t flags) {
  abi::SendWr wr = send_wr(wr_id, opcode, flags);
  wr.remote_address = remote.address(offset);
  wr.rkey = remote.key();
  return wr;
}

void fill_pattern(std::span<std::byte> bytes, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
}

}  // namespace uroce::test
