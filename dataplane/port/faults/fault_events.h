#pragma once

// Events: faults for single packets that a test selects, as Lumina does for network cards
// (SIGCOMM'23): "qp:0/psn:4/iter:2:drop" drops the packet with the fifth PSN sent to the first
// queue pair, when it passes for the second time.
//
//   qp:N      the N-th queue pair, counted from 0 as their packets are first seen
//   qpn:N     the queue pair with this number (0x11 or 17), which its packets name as destination
//   response  what is answered; without it, requests. Each kind counts queue pairs by itself
//   psn:N     packets behind the first that is seen of this queue pair and kind; 0 without it
//   iter:N    the N-th time that this packet passes; 1 without it
//   then      :drop, :ce (marked as congested), :corrupt, :dup, :late (behind the next frame)

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataplane/wire/frame.h"

namespace uroce {

enum class FaultAction : std::uint8_t { kDrop, kCongested, kCorrupt, kDuplicate, kLate };

struct FaultEvent {
  bool by_number = false;
  std::uint32_t qp = 0;  // QP number, or index in order of appearance
  bool response = false;
  std::uint32_t psn = 0;  // relative
  std::uint32_t iteration = 1;
  FaultAction action = FaultAction::kDrop;

  bool operator==(const FaultEvent&) const = default;
};

// EINVAL with a sentence.
[[nodiscard]] Result<FaultEvent> parse_fault_event(std::string_view text);
[[nodiscard]] std::string to_string(const FaultEvent& event);

// Matches packets against the events. Shared by all queues of a port, so that the order of queue
// pairs doesn't depend on the polling worker: takes a lock, only for ports with events. Any thread.
class FaultEvents {
 public:
  static constexpr std::size_t kEventsMax = 64;
  // Queue pairs tracked per kind, in order of appearance.
  static constexpr std::size_t kQpsMax = 1'024;

  explicit FaultEvents(const std::vector<FaultEvent>& events);

  // Counts a passing packet and returns its event, if any. Call once per packet.
  [[nodiscard]] std::optional<FaultAction> pass(const Packet& packet);
  // The same for a frame; nullopt if it isn't RoCE.
  [[nodiscard]] std::optional<FaultAction> pass(const Frame& frame);

 private:
  struct Seen {
    std::uint32_t qpn;
    std::uint32_t first_psn;
  };
  struct Waiting {
    FaultEvent event;
    std::uint32_t passed = 0;  // times that its packet has passed
  };
  std::optional<std::size_t> place_of(const Packet& packet, bool response);

  std::mutex mutex_;
  std::vector<Waiting> events_;
  std::vector<Seen> requests_, responses_;  // queue pairs in the order in which they were seen
};

}  // namespace uroce
