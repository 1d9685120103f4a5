#include "apps/integrity/integrity_plan.h"

#include <algorithm>
#include <cstring>

namespace integrity {
namespace {

constexpr std::uint32_t kAtomicLength = 8;
constexpr std::uint32_t kGap = 16;  // up to so many untouched bytes between two pieces

// Copies `bytes` over the pieces of an image.
void scatter(std::vector<std::uint8_t>& image, const std::vector<Piece>& pieces,
             const std::uint8_t* bytes, std::uint32_t length) {
  for (const Piece& piece : pieces) {
    const std::uint32_t part = std::min(piece.length, length);
    std::memcpy(image.data() + piece.offset, bytes, part);
    bytes += part;
    length -= part;
  }
}

}  // namespace

Planner::Planner(const Limits& limits, std::uint64_t seed)
    : limits_(limits), random_(seed), plans_(limits.queue_pairs) {
  for (QpPlan& plan : plans_) {
    plan.source.resize(limits.arena_size());
    plan.sink.resize(limits.arena_size());
    plan.receive.resize(limits.arena_size());
    plan.region.resize(limits.arena_size());
    for (std::uint8_t& byte : plan.region) {
      byte = static_cast<std::uint8_t>(random_());
    }
  }
}

std::uint64_t Planner::random(std::uint64_t below) { return random_() % below; }

// As many short ones as long ones, and many at the edges of packets.
std::uint32_t Planner::random_length() {
  const auto small = static_cast<std::uint32_t>(random(17));
  switch (random(4)) {
    case 0:
      return std::min(small, limits_.size_max);
    case 1: {
      const std::uint32_t mtu = 256U << random(5);
      const auto edge = static_cast<std::uint32_t>(mtu * (1 + random(4)) + small - 8);
      return std::min(edge, limits_.size_max);
    }
    default: {
      unsigned bits = 0;
      while ((limits_.size_max >> bits) > 1) {
        ++bits;
      }
      const std::uint64_t top = 1ULL << random(bits + 1);
      return std::min(static_cast<std::uint32_t>(top + random(top)), limits_.size_max);
    }
  }
}

// Cuts `length` bytes into pieces that lie behind one another with gaps between them.
std::vector<Piece> Planner::place(std::uint32_t length, std::uint32_t& used, unsigned pieces_max) {
  std::vector<Piece> pieces;
  const std::uint64_t count = length == 0 ? random(2) : 1 + random(pieces_max);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const auto part = last ? length : static_cast<std::uint32_t>(random(length + 1));
    used += static_cast<std::uint32_t>(random(kGap));
    pieces.push_back({used, part});
    used += part;
    length -= part;
  }
  return pieces;
}

std::uint64_t Planner::next_round(std::uint64_t operations) {
  std::uint64_t planned = 0;
  for (std::uint32_t qp = 0; qp < limits_.queue_pairs; ++qp) {
    QpPlan& plan = plans_[qp];
    plan.operations.clear();
    plan.source_used = plan.sink_used = plan.receive_used = 0;
    std::fill(plan.sink.begin(), plan.sink.end(), kSinkFill);
    std::fill(plan.receive.begin(), plan.receive.end(), kReceiveFill);
    being_read_.clear();
    unsignaled_ = 0;
    const std::uint64_t wanted =
        std::min<std::uint64_t>(1 + random(limits_.operations_max), operations - planned);
    while (plan.operations.size() < wanted && add(qp)) {
    }
    if (!plan.operations.empty()) {
      plan.operations.back().signaled = true;  // so that the round has an end
    }
    planned += plan.operations.size();
  }
  return planned;
}

// Adds an operation to the queue pair's plan; false when an arena has no room for another.
bool Planner::add(std::uint32_t qp) {
  QpPlan& plan = plans_[qp];
  const std::uint32_t room = limits_.arena_size() - 2 * limits_.size_max - 1'024;
  if (std::max({plan.source_used, plan.sink_used, plan.receive_used}) > room) {
    return false;
  }
  Operation operation;
  operation.kind = static_cast<Kind>(random(limits_.windows ? kKinds : kKindsPlain));
  operation.solicited = chance(30);
  operation.fence = chance(10);
  switch (operation.kind) {
    case Kind::kRead:
      plan_read(plan, operation);
      break;
    case Kind::kCompareSwap:
    case Kind::kFetchAdd:
      plan_atomic(plan, operation);
      break;
    case Kind::kAtomicWrite:
      plan_atomic_write(plan, operation);
      break;
    case Kind::kFlush:
      plan_flush(plan, operation);
      break;
    default:
      plan_outgoing(plan, operation);
  }
  operation.signaled = signals_all(qp) || chance(40) || unsignaled_ >= limits_.unsignaled_max;
  unsignaled_ = operation.signaled ? 0 : unsignaled_ + 1;
  plan.operations.push_back(std::move(operation));
  return true;
}

// A read that is sent again after a loss is executed again, and would see what was written
// meanwhile. So a program must fence a write behind a read of the same bytes, and so do we.
void Planner::fence_if_read(Operation& operation) {
  for (const Piece& piece : being_read_) {
    if (piece.offset < operation.remote_offset + operation.length &&
        operation.remote_offset < piece.offset + piece.length) {
      operation.fence = true;
    }
  }
  if (operation.fence) {
    being_read_.clear();
  }
}

void Planner::plan_outgoing(QpPlan& plan, Operation& operation) {
  const bool write = operation.kind == Kind::kWrite || operation.kind == Kind::kWriteImm;
  operation.length = random_length();
  if (limits_.inline_max > 0 && chance(20)) {
    operation.inlined = true;
    operation.length = std::min(operation.length, limits_.inline_max);
  }
  operation.immediate = static_cast<std::uint32_t>(random_());
  operation.local = place(operation.length, plan.source_used, limits_.sges_max);
  std::vector<std::uint8_t> message(operation.length);
  for (std::uint8_t& byte : message) {
    byte = static_cast<std::uint8_t>(random_());
  }
  scatter(plan.source, operation.local, message.data(), operation.length);
  operation.receives = operation.kind != Kind::kWrite;
  if (write) {
    operation.remote_offset =
        static_cast<std::uint32_t>(random(plan.region.size() - operation.length));
    fence_if_read(operation);
    std::copy(message.begin(), message.end(), plan.region.begin() + operation.remote_offset);
  }
  if (operation.receives) {
    plan_receive(plan, operation);
  }
  if (operation.kind == Kind::kSend || operation.kind == Kind::kSendImm) {
    scatter(plan.receive, operation.receive, message.data(), operation.length);
  }
  if (operation.fence) {
    being_read_.clear();
  }
}

// The target's buffer for this message: at least as long, often longer.
void Planner::plan_receive(QpPlan& plan, Operation& operation) {
  const std::uint32_t extra = chance(50) ? 0 : static_cast<std::uint32_t>(random(200));
  const bool empty = operation.kind == Kind::kWriteImm && chance(50);
  if (!empty) {
    operation.receive = place(operation.length + extra, plan.receive_used, limits_.sges_max);
  }
}

void Planner::plan_read(QpPlan& plan, Operation& operation) {
  operation.length = random_length();
  operation.remote_offset =
      static_cast<std::uint32_t>(random(plan.region.size() - operation.length));
  operation.local = place(operation.length, plan.sink_used, limits_.sges_max);
  scatter(plan.sink, operation.local, plan.region.data() + operation.remote_offset,
          operation.length);
  if (operation.fence) {
    being_read_.clear();
  }
  being_read_.push_back({operation.remote_offset, operation.length});
}

void Planner::plan_atomic(QpPlan& plan, Operation& operation) {
  operation.length = kAtomicLength;
  operation.remote_offset =
      static_cast<std::uint32_t>(random(plan.region.size() / kAtomicLength) * kAtomicLength);
  if (chance(50)) {
    operation.remote_offset = static_cast<std::uint32_t>(random(4)) * kAtomicLength;  // often met
  }
  fence_if_read(operation);
  std::uint64_t before = 0;
  std::memcpy(&before, plan.region.data() + operation.remote_offset, sizeof(before));
  std::uint64_t after = before;
  operation.compare_add = random_();
  operation.swap = random_();
  if (operation.kind == Kind::kFetchAdd) {
    after = before + operation.compare_add;
  } else {
    operation.compare_add = chance(70) ? before : operation.compare_add;
    after = operation.compare_add == before ? operation.swap : before;
  }
  std::memcpy(plan.region.data() + operation.remote_offset, &after, sizeof(after));
  operation.local = place(kAtomicLength, plan.sink_used, 1);
  scatter(plan.sink, operation.local, reinterpret_cast<const std::uint8_t*>(&before),
          kAtomicLength);
}

// 8 bytes that the request itself carries.
void Planner::plan_atomic_write(QpPlan& plan, Operation& operation) {
  operation.length = kAtomicLength;
  operation.remote_offset =
      static_cast<std::uint32_t>(random(plan.region.size() / kAtomicLength) * kAtomicLength);
  fence_if_read(operation);
  operation.swap = random_();
  std::memcpy(plan.region.data() + operation.remote_offset, &operation.swap, kAtomicLength);
}

// Changes nothing; it may only fail.
void Planner::plan_flush(QpPlan& plan, Operation& operation) {
  operation.length = random_length();
  operation.remote_offset =
      static_cast<std::uint32_t>(random(plan.region.size() - operation.length));
  if (operation.fence) {
    being_read_.clear();
  }
}

}  // namespace integrity
