#include "apps/replay/card.h"

#include <algorithm>

#include "mmu/copies/copy.h"
#include "mmu/key.h"

namespace uroce::replay {
namespace {

constexpr PdId kPd = 1;
constexpr PdId kOtherPd = 2;
constexpr std::uint32_t kKeysMin = 1'024;
constexpr std::uint64_t kKeySeed = 1;  // of keys that nobody has chosen
constexpr std::uint64_t kSuppliedAddress = 0x1000;
constexpr std::uint32_t kSgeMax = 8;
constexpr QueuesConfig kQueues = {.send_entries = 1,
                                  .recv_entries = 1'024,
                                  .cq_entries = 2'048,
                                  .sge_max = kSgeMax,
                                  .inline_max = 0};

}  // namespace

Card::End::End(QpConfig config) : queues(kQueues), qp((queues.attach(&config), config)) {}

// Room for the largest key that was recorded: its upper bits are an index.
std::uint32_t Card::keys_for(const CardPlan& plan) {
  std::uint32_t keys = kKeysMin;
  for (const RegionPlan& region : plan.regions) {
    keys = std::max(keys, key_index(region.key) + 1);
  }
  return keys;
}

Card::Card(const CardPlan& plan)
    : plan_(plan), port_(plan.mac), keys_(quiescence_, keys_for(plan), kKeySeed) {
  install_copy_guard();
  Worker::Config config;
  config.ports = {&port_};
  config.keys = &keys_;
  // Answers are compared with those of cards that buffer no out-of-order packets.
  config.recovery = Recovery::kGoBackN;
  config.events = this;
  config.frames = this;
  worker_ = std::make_unique<Worker>(config);
  std::vector<LinkAddress> addresses;
  for (const Gid& address : plan.addresses) {
    addresses.push_back({address, plan.vlan});
  }
  worker_->set_addresses(0, std::move(addresses));
}

Card::~Card() {
  for (auto& [qpn, end] : ends_) {
    worker_->remove_qp(end->qp);
  }
}

std::vector<std::string> Card::set_up() {
  std::vector<std::string> problems;
  add_regions(problems);
  for (const QueuePlan& queue : plan_.queues) {
    if (queue.from_frame) {
      later_.emplace(*queue.from_frame, &queue);
    } else {
      make_queue(queue, 0);
    }
  }
  for (const ReceivePlan& receive : plan_.receives) {
    End* const end = end_of(receive.qpn);
    if (end == nullptr || end->queues.receives.waiting() == kQueues.recv_entries) {
      problems.push_back("no room for more receives than " + std::to_string(kQueues.recv_entries));
    } else {
      end->queues.post_recv(receive.wr_id, receive.places);
    }
  }
  return problems;
}

void Card::add_regions(std::vector<std::string>& problems) {
  const auto add = [&](const Memory& memory, std::uint64_t iova, std::uint32_t access, PdId pd,
                       std::uint32_t key) {
    Region::Config config;
    config.pd = pd;
    config.access = access;
    config.iova = iova;
    config.length = memory.length();
    config.pieces = {{.start = 0,
                      .length = memory.length(),
                      .host = memory.data(),
                      .remote_address = reinterpret_cast<std::uint64_t>(memory.data())}};
    return keys_.add(std::make_unique<Region>(std::move(config)), key);
  };
  for (const RegionPlan& region : plan_.regions) {
    const auto key = add(*region.memory, region.iova, region.access,
                         region.other_pd ? kOtherPd : kPd, region.key);
    if (!key) {
      problems.push_back("no region with key " + std::to_string(region.key) + ": " +
                         key.error().message);
    }
  }
  if (plan_.supplied_length != 0) {
    supplied_ = Memory::make(plan_.supplied_length);
    const auto key = supplied_ == nullptr
                         ? Result<std::uint32_t>(Error{ENOMEM, "there is no memory for receives"})
                         : add(*supplied_, kSuppliedAddress, kAccessLocalWrite, kPd, 0);
    if (!key) {
      problems.push_back(key.error().message);
    } else {
      supplied_key_ = *key;
    }
  }
}

void Card::start_queues(std::size_t frame, Time now) {
  for (auto [queue, end] = later_.equal_range(frame); queue != end; ++queue) {
    make_queue(*queue->second, now);
  }
}

// A number that was used before by a connection to another peer changes hands.
void Card::make_queue(const QueuePlan& queue, Time now) {
  worker_->set_time(now);
  if (End* const old = end_of(queue.qpn); old != nullptr) {
    worker_->remove_qp(old->qp);
    ends_.erase(queue.qpn);
  }
  QpConfig config;
  config.qpn = queue.qpn;
  config.type = queue.type;
  config.pd = kPd;
  auto end = std::make_unique<End>(config);
  worker_->add_qp(end->qp);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state <= queue.state) {
      QpAttributes attributes = queue.attributes;
      attributes.state = state;
      // All that is asked for with each: nobody has to be told what is missing.
      worker_->modify_qp(end->qp, attributes, ~std::uint32_t{0});
    }
  }
  ends_[queue.qpn] = std::move(end);
}

Card::End* Card::end_of(std::uint32_t qpn) {
  const auto found = ends_.find(qpn);
  return found == ends_.end() ? nullptr : found->second.get();
}

void Card::supply_receive(std::uint32_t qpn) {
  End* const end = end_of(qpn);
  if (end != nullptr && end->queues.receives.waiting() == 0) {
    const abi::Sge sge{
        .address = kSuppliedAddress, .length = plan_.supplied_length, .lkey = supplied_key_};
    end->queues.post_recv(0, {&sge, 1});
  }
}

Fate Card::receive(std::span<const std::byte> frame, std::uint32_t qpn, Time now) {
  Fate fate;
  if (!ReplayPort::carries(frame.size())) {
    fate.kind = Fate::Kind::kTooLong;
    return fate;
  }
  fate_ = &fate;
  const WorkerCounters before = worker_->counters();
  End* const end = end_of(qpn);
  const QpState state = end != nullptr ? end->qp.state() : QpState::kReset;
  const std::uint64_t duplicates = end != nullptr ? end->qp.counters().duplicate_request : 0;
  port_.give(frame);
  while (worker_->poll(now)) {
  }
  fate_ = nullptr;
  const WorkerCounters& after = worker_->counters();
  for (std::size_t reason = 0; reason < kDropCount && fate.kind == Fate::Kind::kReceived;
       ++reason) {
    if (after.drops[reason] != before.drops[reason]) {
      fate.kind = Fate::Kind::kDropped;
      fate.reason = static_cast<Drop>(reason);
    }
  }
  if (end != nullptr) {
    fate.duplicate = end->qp.counters().duplicate_request != duplicates;
    if (end->qp.state() != state) {
      fate.state = end->qp.state();
    }
    while (const auto cqe = end->queues.poll_recv()) {
      fate.completions.push_back(*cqe);
      end->completions.push_back(*cqe);
    }
  }
  fate.answers = port_.take_sent();
  return fate;
}

void Card::announce(AsyncEvent event, std::uint32_t /*object*/) { events_.push_back(event); }

void Card::report(const FailureReport& report) {
  if (fate_ != nullptr) {
    fate_->failures.push_back(report);
  }
}

bool Card::take(std::uint16_t /*port*/, std::span<const std::byte> /*frame*/) {
  if (fate_ != nullptr) {
    fate_->kind = Fate::Kind::kControl;
  }
  return true;
}

bool Card::take_mad(std::uint16_t /*port*/, std::span<const std::byte> /*frame*/,
                    const Gid& /*sender*/) {
  if (fate_ != nullptr) {
    fate_->kind = Fate::Kind::kMad;
  }
  return true;
}

}  // namespace uroce::replay
