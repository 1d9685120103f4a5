#include "tests/sim/world.h"

#include <algorithm>

#include "dataplane/port/loopback_port.h"

namespace uroce::sim {
namespace {

// A run that takes longer has lost something. Virtual time; the longest wait of a correct run is
// that for a peer that is gone: 8 timeouts of 17 ms for each of two ends.
constexpr Time kRunMax = 20 * kNanosecondsPerSecond;
constexpr std::uint64_t kTurnsMax = 20'000'000;
constexpr Duration kTurnMin = 100;
constexpr Duration kTurnMax = 3'000;
constexpr std::uint64_t kPagingSalt = 0x0DB0'0DB0;
constexpr std::uint64_t kBottleneckSalt = 0xB077'1E9E;
constexpr std::uint64_t kRecoverySalt = 0x5E1E'C71E;
constexpr std::uint64_t kContentSalt = 0xC047'E471;
constexpr std::uint32_t kIpHeadersMax = 100;  // and RoCE's, before and after a payload
constexpr std::uint32_t kPsnWindow = 40;      // how near to the wrap initial PSNs may be

// Both ports of a link apply them, so an exchange meets them four times: with higher rates, a few
// of 10,000 seeds lose one packet or its answer eight times in a row, which rightly ends a
// connection.
Faults random_faults(Random& random) {
  Faults faults;
  faults.seed = random.next();
  if (random.chance(0.15)) {
    return faults;
  }
  const auto up_to = [&](double most) {
    return random.chance(0.3) ? 0 : most * random.range(0, 100) / 100;
  };
  faults.loss = up_to(0.03);
  faults.dup = up_to(0.03);
  faults.reorder = up_to(0.05);
  faults.corrupt = up_to(0.02);
  faults.delay = random.chance(0.5) ? 0 : random.range(0, 20'000);
  return faults;
}

// The queue of the narrowest ones is shorter than what two connections may have in flight, so it
// drops; whatever passes is progress, so that doesn't lose anything eight times in a row.
BottleneckConfig random_bottleneck(Random& random) {
  if (random.chance(0.75)) {
    return {};
  }
  BottleneckConfig bottleneck;
  bottleneck.rate = std::uint64_t{random.range(1, 40)} * 1'000'000'000;
  bottleneck.queue = random.range(50'000, 400'000);
  bottleneck.kmax = random.range(20'000, 50'000);
  bottleneck.kmin = random.range(1'000, 20'000);
  bottleneck.pmax = 0.2;
  return bottleneck;
}

std::uint32_t random_psn(Random& random) {
  return random.chance(0.5) ? (0x100'0000 - random.range(0, kPsnWindow)) & kPsnMask
                            : static_cast<std::uint32_t>(random.next()) & kPsnMask;
}

bool same_completions(const std::vector<abi::Cqe>& left, const std::vector<abi::Cqe>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const abi::Cqe& one, const abi::Cqe& other) {
                      return one.wr_id == other.wr_id && one.status == other.status &&
                             one.opcode == other.opcode && one.byte_len == other.byte_len &&
                             one.immediate == other.immediate && one.wc_flags == other.wc_flags &&
                             one.qp_num == other.qp_num && one.src_qp == other.src_qp;
                    });
}

void add(FaultCounts& sum, const FaultCounts& more) {
  for (std::size_t role = 0; role < kFaultRoles; ++role) {
    sum.by_role[role] += more.by_role[role];
  }
  sum.writes += more.writes;
  sum.asked += more.asked;
  sum.resolved += more.resolved;
  sum.failed += more.failed;
}

}  // namespace

void Outcome::add(const Outcome& more) {
  frames += more.frames;
  requests += more.requests;
  explicit_nodes += more.explicit_nodes;
  implicit_nodes += more.implicit_nodes;
  page_faults += more.page_faults;
  sim::add(faults, more.faults);
  at_once += more.at_once;
  invalidations += more.invalidations;
  overtaken += more.overtaken;
  broken += more.broken;
  marked += more.marked;
  overflowed += more.overflowed;
  transport += more.transport;
}

World::World(std::uint64_t seed, Topology topology) : random_(seed), topology_(topology) {
  static constexpr std::uint32_t kMtus[] = {256, 512, 1'024, 2'048, 4'096};
  mtu_ = random_.pick(kMtus);
  faults_ = random_faults(random_);
  connections_ = random_.range(1, 4);
  mishaps_ = random_.chance(0.3);

  LinkConfig link;
  link.wire_entries = 64U << random_.range(0, 3);
  std::vector<FlowConfig> plans;
  std::size_t bytes = 4'096;
  for (std::uint32_t i = 0; i < 2 * connections_; ++i) {
    plans.push_back(random_flow());
    bytes += Flow::arena_bytes(plans.back());
    plans.back().content_seed = topology_ == Topology::kTwoNodes ? 0 : seed * kContentSalt + i + 1;
  }
  make_nodes(bytes, link, seed);
  for (SharedCounter* counter : {&shared_a_, &shared_b_}) {
    Node& node = counter == &shared_a_ ? *a_ : *b_;
    counter->offset = node.arena.reserve(sizeof(std::uint64_t));
    const std::uint64_t zero = 0;
    node.arena.write(counter->offset, std::as_bytes(std::span(&zero, 1)));
  }
  if (faults_.bottleneck.rate != 0) {
    a_->share_network(kDefaultCongestion);
    b_->share_network(kDefaultCongestion);
  }
  for (std::uint32_t i = 0; i < connections_; ++i) {
    connect(i, plans[2 * i], plans[2 * i + 1]);
  }
}

void World::make_nodes(std::size_t bytes, const LinkConfig& link, std::uint64_t seed) {
  // From separate random sequences, so that the rest of a seed is the same with and without them.
  Random paging(seed ^ kPagingSalt);
  Random narrow(seed ^ kBottleneckSalt);
  faults_.bottleneck = random_bottleneck(narrow);
  Faults other = faults_;
  other.seed = random_.next();
  const auto paging_seed = [&] { return paging.chance(0.4) ? paging.next() | 1 : 0; };
  // Mostly both ends buffer packets beyond a gap, otherwise one of them, or none.
  Random recoveries(seed ^ kRecoverySalt);
  const auto recovery = [&] {
    return recoveries.chance(0.25) ? Recovery::kGoBackN : Recovery::kSelective;
  };
  if (topology_ != Topology::kTwoNodes) {
    nodes_.push_back(std::make_unique<Node>(std::make_unique<LoopbackPort>(mtu_ + kIpHeadersMax, 1),
                                            faults_, "10.0.0.1", bytes, paging_seed(), recovery(),
                                            topology_ == Topology::kOneNodeDirect));
  } else {
    auto [left, right] = make_link(link);
    nodes_.push_back(std::make_unique<Node>(std::move(left), faults_, "10.0.0.1", bytes,
                                            paging_seed(), recovery()));
    nodes_.push_back(std::make_unique<Node>(std::move(right), other, "10.0.0.2", bytes,
                                            paging_seed(), recovery()));
  }
  a_ = nodes_.front().get();
  b_ = nodes_.back().get();
}

FlowConfig World::random_flow() {
  FlowConfig flow;
  flow.requests = random_.range(1, 60);
  flow.message_bytes_max = random_.range(64, std::min(20'000U, 24 * mtu_));
  flow.sge_max = random_.range(1, 6);
  flow.inline_max = random_.range(0, 1) * random_.range(0, 256);
  flow.send_entries = 1U << random_.range(0, 5);
  flow.recv_entries = 1U << random_.range(0, 4);
  flow.signal_all = random_.chance(0.2);
  flow.signaled = random_.chance(0.5) ? 1 : 0.3;
  flow.receives_late = random_.chance(0.6) ? 0.1 : 0.97;
  flow.mishap_at = ~0U;
  return flow;
}

void World::connect(std::uint32_t index, FlowConfig of_a, FlowConfig of_b) {
  QpAttributes to_b;
  if (mishaps_ && random_.chance(0.7)) {
    FlowConfig& victim = random_.chance(0.5) ? of_a : of_b;
    victim.mishap = static_cast<Mishap>(random_.range(1, 8));
    victim.mishap_at = random_.range(0, victim.requests - 1);
    to_b.rnr_retry =
        static_cast<std::uint8_t>(victim.mishap == Mishap::kNoReceive ? random_.range(0, 3) : 7);
  } else {
    to_b.rnr_retry = 7;
  }
  const auto add = [&](Node& node, const FlowConfig& sends, const FlowConfig& receives) -> End& {
    const QueuesConfig queues{.send_entries = sends.send_entries,
                              .recv_entries = receives.recv_entries,
                              .cq_entries = 128,
                              .sge_max = std::max(sends.sge_max, receives.sge_max),
                              .inline_max = sends.inline_max};
    const bool other = &sends == &of_b;
    return node.add_end(17 + index + (other ? 100 : 0), queues, sends.signal_all);
  };
  End& a_end = add(*a_, of_a, of_b);
  End& b_end = add(*b_, of_b, of_a);

  to_b.path_mtu = mtu_;
  to_b.sq_psn = random_psn(random_);
  to_b.rq_psn = random_psn(random_);
  to_b.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
  to_b.max_rd_atomic = static_cast<std::uint8_t>(random_.range(1, 8));
  to_b.max_dest_rd_atomic = static_cast<std::uint8_t>(random_.range(1, 8));
  to_b.min_rnr_timer = static_cast<std::uint8_t>(random_.range(1, 8));
  to_b.timeout = static_cast<std::uint8_t>(random_.range(6, 12));
  to_b.retry_cnt = 7;
  QpAttributes to_a = to_b;
  std::swap(to_a.sq_psn, to_a.rq_psn);
  std::swap(to_a.max_rd_atomic, to_a.max_dest_rd_atomic);
  const auto rnr_retry = [&](const FlowConfig& flow) {
    return static_cast<std::uint8_t>(flow.mishap == Mishap::kNoReceive ? random_.range(0, 3) : 7);
  };
  to_b.rnr_retry = rnr_retry(of_a);
  to_a.rnr_retry = rnr_retry(of_b);
  sim::connect(*a_, a_end, to_b, *b_, b_end, to_a, now_);
  flows_.emplace_back(of_a, random_, *a_, a_end, *b_, b_end, shared_b_);
  flows_.emplace_back(of_b, random_, *b_, b_end, *a_, a_end, shared_a_);
  if (of_a.mishap != Mishap::kNone || of_b.mishap != Mishap::kNone) {
    flows_[flows_.size() - 1].may_break();
    flows_[flows_.size() - 2].may_break();
  }
}

Outcome World::run() {
  Outcome outcome;
  std::uint64_t turns = 0;
  bool healed = false;
  while (outcome.wrong.empty()) {
    const bool busy = turn();
    outcome.wrong = check();
    const auto all = [&](auto predicate) {
      return std::all_of(flows_.begin(), flows_.end(), predicate);
    };
    if (all([](const Flow& flow) { return flow.finished(); }) && !busy) {
      break;
    }
    if (!healed && all([](const Flow& flow) { return flow.posted(); }) && random_.chance(0.01)) {
      healed = true;  // from here on everything must finish
      for (const auto& node : nodes_) {
        node->port.set_enabled(false);
      }
    }
    if (++turns > kTurnsMax || now_ > kRunMax) {
      outcome.wrong = "never finishes: " + stuck();
    }
  }
  if (outcome.wrong.empty()) {
    outcome.wrong = check_end();
  }
  for (const auto& node : nodes_) {
    const LinkFaultCounts network = node->port.fault_counts();
    outcome.marked += network.marked;
    outcome.overflowed += network.overflowed;
    node->for_each_qp([&](const Qp& qp) { outcome.transport += qp.counters(); });
    outcome.frames += node->worker->counters().rx_frames;
    outcome.page_faults += node->worker->counters().page_faults;
    outcome.at_once += node->worker->counters().page_faults_at_once;
    if (node->paging != nullptr) {
      outcome.invalidations += node->paging->invalidations();
      outcome.overtaken += node->paging->overtaken();
      add(outcome.faults, node->paging->mirror()->statistics().all());
      (node->paging->implicit() ? outcome.implicit_nodes : outcome.explicit_nodes) += 1;
    }
  }
  for (const Flow& flow : flows_) {
    outcome.requests += flow.requests_posted();
    outcome.broken += flow.broken() ? 1 : 0;
  }
  return outcome;
}

// All programs act, then time passes: a little while there is work, otherwise until the next event.
bool World::turn() {
  bool may_post = false;
  for (Flow& flow : flows_) {
    flow.act(now_);
    may_post = may_post || !flow.finished();
  }
  bool busy = false;
  for (const auto& node : nodes_) {
    busy |= node->worker->poll(now_);
  }
  Time next = kNever;
  for (const auto& node : nodes_) {
    busy |= node->paging != nullptr && node->paging->turn(now_, may_post);
    next = std::min(next, node->worker->next_deadline());
  }
  Duration step = random_.range(kTurnMin, kTurnMax);
  if (!busy && next != kNever && next > now_) {
    step = std::max<Duration>(1, std::min(next - now_, may_post ? 50 * step : next - now_));
  }
  now_ += step;
  return busy;
}

std::string World::check() {
  for (Flow& flow : flows_) {
    if (std::string wrong = flow.check(); !wrong.empty()) {
      return wrong;
    }
  }
  return {};
}

std::string World::check_end() {
  for (Flow& flow : flows_) {
    if (std::string wrong = flow.check_end(); !wrong.empty()) {
      return wrong;
    }
  }
  for (SharedCounter* counter : {&shared_a_, &shared_b_}) {
    Node& node = counter == &shared_a_ ? *a_ : *b_;
    const std::uint64_t additions = counter->originals.size();
    std::sort(counter->originals.begin(), counter->originals.end());
    if (std::adjacent_find(counter->originals.begin(), counter->originals.end()) !=
        counter->originals.end()) {
      return "two additions found the same value in the shared counter";
    }
    if (counter->exact) {
      node.arena.expect(counter->offset, std::as_bytes(std::span(&additions, 1)));
    } else {
      node.arena.forget(counter->offset, sizeof(additions));
    }
  }
  for (const auto& node : nodes_) {
    if (std::string wrong = node->arena.compare(); !wrong.empty()) {
      std::string where;
      for (const Flow& flow : flows_) {
        where += "\n  " + flow.describe();
      }
      return std::string(node.get() == a_ ? "a" : "b") + "'s memory: " + wrong + where;
    }
  }
  return {};
}

// Unless something is broken deliberately, the results are determined by the posted work.
std::string World::compare(const World& other) const {
  if (mishaps_) {
    return {};
  }
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    if (!same_completions(flows_[i].sends_reported(), other.flows_[i].sends_reported()) ||
        !same_completions(flows_[i].receives_reported(), other.flows_[i].receives_reported())) {
      return flows_[i].describe() + ": other completions than with frames";
    }
  }
  const auto& mine = a_->arena.memory;
  return std::equal(mine.begin(), mine.end(), other.a_->arena.memory.begin())
             ? ""
             : "other bytes than with frames";
}

std::string World::stuck() const {
  std::string list;
  for (const Flow& flow : flows_) {
    list += flow.finished() ? "" : flow.describe() + "; ";
  }
  return list;
}

}  // namespace uroce::sim
