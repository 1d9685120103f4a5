#pragma once

// The counters of one queue of a port: written by its worker, read by any thread.

#include <atomic>
#include <cstdint>

#include "dataplane/port/port.h"

namespace uroce {

class alignas(64) QueueCounters {
 public:
  void received(Frame* const* frames, std::uint32_t count) {
    add(rx_frames_, count);
    add(rx_bytes_, bytes(frames, count));
  }
  // REQUIRES: called before the frames are handed over.
  void sent(Frame* const* frames, std::uint32_t count) {
    add(tx_frames_, count);
    add(tx_bytes_, bytes(frames, count));
  }
  void sent(std::uint32_t count, std::uint64_t length) {
    add(tx_frames_, count);
    add(tx_bytes_, length);
  }
  void refused(std::uint32_t count) { add(tx_refused_, count); }
  void missed(std::uint32_t count) { add(rx_missed_, count); }
  void failed(std::uint32_t count) { add(tx_failed_, count); }
  void solved(std::uint32_t count) { add(ip_id_solved_, count); }

  void add_to(PortCounters* sum) const {
    sum->rx_frames += load(rx_frames_);
    sum->rx_bytes += load(rx_bytes_);
    sum->tx_frames += load(tx_frames_);
    sum->tx_bytes += load(tx_bytes_);
    sum->tx_refused += load(tx_refused_);
    sum->rx_missed += load(rx_missed_);
    sum->tx_failed += load(tx_failed_);
    sum->ip_id_solved += load(ip_id_solved_);
  }

 private:
  // One writer, so an increment is a load and a store. Relaxed counters.
  using Counter = std::atomic<std::uint64_t>;
  static void add(Counter& counter, std::uint64_t count) {
    counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  static std::uint64_t load(const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  }
  static std::uint64_t bytes(Frame* const* frames, std::uint32_t count) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      sum += frames[i]->length;
    }
    return sum;
  }

  Counter rx_frames_{0}, rx_bytes_{0}, tx_frames_{0}, tx_bytes_{0}, tx_refused_{0}, rx_missed_{0};
  Counter tx_failed_{0}, ip_id_solved_{0};
};

}  // namespace uroce
