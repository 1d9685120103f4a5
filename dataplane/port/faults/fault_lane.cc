#include "dataplane/port/faults/fault_lane.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/ecn.h"
#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

// A reordered frame waits until this many later ones have passed, or for this time if none arrive.
constexpr std::uint32_t kPassesMax = 4;
constexpr Duration kReorderHold = 50 * kNanosecondsPerMicrosecond;

constexpr std::uint32_t kEtherHeader = 14;
constexpr std::uint32_t kVlanTag = 4;
// The last byte of a PSN, from the BTH on: part of every packet, covered by the ICRC.
constexpr std::size_t kPsnEnd = 11;

// Where the IP header starts, or 0 if the frame carries something else.
std::uint32_t ip_offset(const Frame& frame) {
  std::uint32_t offset = kEtherHeader;
  if (frame.length < kEtherHeader + kVlanTag) {
    return 0;
  }
  auto type_at = [&frame](std::uint32_t end) {
    return std::to_integer<unsigned>(frame.data[end - 2]) << 8U |
           std::to_integer<unsigned>(frame.data[end - 1]);
  };
  if (type_at(offset) == kEtherTypeVlan) {
    offset += kVlanTag;
  }
  const unsigned type = type_at(offset);
  return (type == kEtherTypeIpv4 || type == kEtherTypeIpv6) && frame.length > offset ? offset : 0;
}

}  // namespace

FaultLane::FaultLane(const Faults& faults, std::uint64_t number, Bottleneck* bottleneck,
                     FaultEvents* events)
    : faults_(faults),
      bottleneck_(bottleneck),
      events_(events),
      random_(faults.seed * 0x1'0001U + number) {}

void FaultLane::offer(Frame* const* frames, std::uint32_t count, bool enabled, Port& port,
                      Time now) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (enabled) {
      decide(frames[i], port, now);
    } else {
      line_.push_back({frames[i], now, 0});
    }
  }
}

std::uint32_t FaultLane::take(Frame** frames, std::uint32_t max, Time now) {
  std::uint32_t count = 0;
  while (count < max && !late_.empty() && (late_.front().passes == 0 || late_.front().due <= now)) {
    frames[count++] = late_.front().frame;
    late_.pop_front();
  }
  while (count < max && !line_.empty() && line_.front().due <= now) {
    frames[count++] = line_.front().frame;
    line_.pop_front();
    for (Held& held : late_) {
      held.passes -= held.passes > 0 ? 1 : 0;
    }
    while (count < max && !late_.empty() && late_.front().passes == 0) {
      frames[count++] = late_.front().frame;
      late_.pop_front();
    }
  }
  return count;
}

void FaultLane::put_back(Frame* const* frames, std::uint32_t count) {
  while (count > 0) {
    line_.push_front({frames[--count], 0, 0});
  }
}

Time FaultLane::next_due() const {
  const Time line = line_.empty() ? kNever : line_.front().due;
  const Time late = late_.empty() ? kNever : late_.front().due;
  return std::min(line, late);
}

void FaultLane::release_all(Port& port) {
  for (auto* list : {&line_, &late_}) {
    for (Held& held : *list) {
      port.release(&held.frame, 1);
    }
  }
}

void FaultLane::add_to(LinkFaultCounts* sum) const {
  sum->frames += frames_.load(std::memory_order_relaxed);
  sum->lost += lost_.load(std::memory_order_relaxed);
  sum->repeated += repeated_.load(std::memory_order_relaxed);
  sum->reordered += reordered_.load(std::memory_order_relaxed);
  sum->corrupted += corrupted_.load(std::memory_order_relaxed);
  sum->marked += marked_.load(std::memory_order_relaxed);
  sum->overflowed += overflowed_.load(std::memory_order_relaxed);
}

// All random numbers are drawn for each frame, so that one fault's probability doesn't shift
// another's.
FaultLane::Fate FaultLane::draw() {
  Fate fate{};
  fate.lose = random_.chance(faults_.loss);
  fate.repeat = random_.chance(faults_.dup);
  fate.reorder = random_.chance(faults_.reorder);
  fate.corrupt = random_.chance(faults_.corrupt);
  fate.detail = random_.next();
  fate.passes = static_cast<std::uint32_t>(fate.detail >> 32U) % kPassesMax + 1;
  return fate;
}

void FaultLane::apply_event(Frame& frame, Fate* fate) {
  const auto action = events_->pass(frame);
  if (!action) {
    return;
  }
  switch (*action) {
    case FaultAction::kDrop:
      fate->lose = true;
      break;
    case FaultAction::kCongested:
      mark(frame);
      break;
    case FaultAction::kCorrupt: {
      // A bit that the ICRC covers; it masks some others.
      Frame looked_at = frame;
      (void)parse_headers(looked_at);
      const auto bth = static_cast<std::size_t>(looked_at.packet.bth - frame.data);
      frame.data[bth + kPsnEnd] ^= std::byte{1};
      frame.icrc_checked = false;
      count(corrupted_);
      break;
    }
    case FaultAction::kDuplicate:
      fate->repeat = true;
      break;
    case FaultAction::kLate:
      fate->reorder = true;
      fate->passes = 1;
      break;
  }
}

void FaultLane::decide(Frame* frame, Port& port, Time now) {
  count(frames_);
  Fate fate = draw();
  if (events_ != nullptr) {
    apply_event(*frame, &fate);
  }
  if (fate.lose) {
    count(lost_);
    port.release(&frame, 1);
    return;
  }
  Time departs = now;
  if (bottleneck_ != nullptr && !pass_bottleneck(*frame, now, &departs)) {
    port.release(&frame, 1);
    return;
  }
  const Time due = departs + faults_.delay;
  if (Frame* copy = nullptr; fate.repeat && port.allocate(&copy, 1) == 1) {
    std::memcpy(copy->data, frame->data, frame->length);
    copy->length = frame->length;
    copy->icrc_left_out = frame->icrc_left_out;
    line_.push_back({copy, due, 0});
    count(repeated_);
  }
  if (fate.corrupt && !corrupt(*frame, fate)) {
    port.release(&frame, 1);
    return;
  }
  if (fate.reorder) {
    hold_late(frame, due + kReorderHold, fate.passes);
    return;
  }
  line_.push_back({frame, due, 0});
}

// False: the bottleneck's queue is full.
bool FaultLane::pass_bottleneck(Frame& frame, Time now, Time* departs) {
  const std::uint32_t ip = ip_offset(frame);
  const bool ecn_capable = ip != 0 && read_ecn(frame.data + ip) != Ecn::kNotCapable;
  const Bottleneck::Fate fate = bottleneck_->admit(frame.length, ecn_capable, random_.draw(), now);
  if (fate.dropped) {
    count(overflowed_);
    return false;
  }
  if (fate.marked) {
    mark(frame);
  }
  *departs = fate.departs;
  return true;
}

void FaultLane::mark(Frame& frame) {
  write_ecn(frame.data + ip_offset(frame), Ecn::kCongested);
  count(marked_);
}

// From the IP header on, where checksum or ICRC must detect it. A frame with neither (ARP) is lost
// instead, as it would be by the Ethernet checksum: then false.
bool FaultLane::corrupt(Frame& frame, const Fate& fate) {
  const std::uint32_t start = ip_offset(frame);
  count(corrupted_);
  if (start == 0) {
    return false;
  }
  frame.icrc_checked = false;
  const std::uint64_t bit = fate.detail % (std::uint64_t{frame.length - start} * 8);
  frame.data[start + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  return true;
}

void FaultLane::hold_late(Frame* frame, Time due, std::uint32_t passes) {
  late_.push_back({frame, due, passes});
  std::stable_sort(late_.begin(), late_.end(),
                   [](const Held& a, const Held& b) { return a.passes < b.passes; });
  count(reordered_);
}

}  // namespace uroce
