#pragma once

// The packets that `--on-error N` selects: those around each failed completion. The last N packets
// are held here; when a completion fails, they and the next N within kTimeout are selected.
// Failures that are close together share packets, and no packet is selected twice.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/capture/record.h"
#include "base/time.h"

namespace uroce::capture {

class ErrorWindow {
 public:
  static constexpr std::size_t kPacketsMax = 65'536;  // of N
  // After a failure; a queue pair that failed is silent, so N more packets may never come.
  static constexpr Duration kTimeout = kNanosecondsPerSecond;

  using Take = std::function<void(const Record&, const std::vector<std::string>& failures)>;

  // `packets`: N, from 1 to kPacketsMax.
  explicit ErrorWindow(std::size_t packets) : packets_(packets) {}

  // The next packet, in the order of time.
  void add(Record packet, const Take& take);

  // A completion of the queue pair `qpn` failed. The sentence goes with the last packet of that
  // queue pair here; without one, with the last packet, or else with the next.
  void fail(std::uint32_t qpn, std::string sentence, Time now);

  // Passes on the selected packets that are old enough, or all of them.
  void release(Time now, bool all, const Take& take);

  // Whether it holds a packet of this queue pair.
  [[nodiscard]] bool knows(std::uint32_t qpn) const;
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  // There was a failure, and nothing more belongs to it.
  [[nodiscard]] bool is_complete() const;

 private:
  enum class State : std::uint8_t { kNotWanted, kWanted, kHandedOver };
  struct Waiting {
    Record record;
    std::vector<std::string> failures;
    State state = State::kNotWanted;
  };

  static void hand_over(Waiting& waiting, const Take& take);

  const std::size_t packets_;
  std::deque<Waiting> waiting_;
  std::size_t wanted_next_ = 0;              // packets that are still to come
  std::vector<std::string> without_packet_;  // of failures, for the next packet
  std::optional<Time> failed_;               // the last one, until kTimeout is over
  std::uint64_t failures_ = 0;
};

}  // namespace uroce::capture
