#pragma once

// A program whose memory is paged on demand, at its end of the real channels: one thread describes
// its memory, and another takes pages away, moves them and gives them back in a loop.

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "abi/paging_records.h"
#include "base/sockets/record_socket.h"
#include "base/unique_fd.h"

namespace uroce::control {

class PagingProgram {
 public:
  static constexpr std::uint64_t kBase = 0x7000'0000'0000;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kPages = 48;   // few, so that threads collide
  static constexpr std::uint32_t kPlaces = 2;   // places of a page in the arena
  static constexpr std::uint32_t kTaken = ~0U;  // nobody may touch it

  PagingProgram(UniqueFd share, UniqueFd invalidate, std::uint32_t seed);
  ~PagingProgram() { end(); }
  PagingProgram(const PagingProgram&) = delete;
  PagingProgram& operator=(const PagingProgram&) = delete;

  // The place of a page at this moment, or kTaken. Its first word there is the same number. Orders
  // nothing: whoever may touch the page knows that from the daemon.
  [[nodiscard]] std::uint32_t place(std::uint64_t page) const {
    return places_[page].load(std::memory_order_relaxed);
  }

  void stop_answering() { mute_.store(true, std::memory_order_relaxed); }  // as if by SIGSTOP
  void hang_up();                                                          // as if it had died
  // Ends its threads. place() keeps its last values.
  void end();
  [[nodiscard]] std::uint64_t invalidations() const { return invalidations_; }  // after end()

 private:
  void answer_questions();
  [[nodiscard]] Record describe(const abi::ShareRange& question) const;
  void take_pages_away(std::uint32_t seed);
  bool announce(const abi::Invalidate& range);

  UniqueFd share_, invalidate_, arena_;
  std::array<std::atomic<std::uint32_t>, kPages> places_{};
  std::atomic<bool> mute_{false};
  std::uint64_t invalidations_ = 0;
  std::thread answering_, taking_;
};

inline constexpr std::uint64_t kBase = PagingProgram::kBase;
inline constexpr std::uint64_t kPage = PagingProgram::kPage;

}  // namespace uroce::control
