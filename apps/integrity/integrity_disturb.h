#pragma once

// A thread that changes memory on demand while peers read and write it. What lies in a file is
// mapped over itself and dropped from the page tables, under the traffic itself: no byte may get
// lost. Of private memory the spare pages are unmapped, mapped anew, dropped and refilled, next to
// the traffic and in the same region: they must read as zeroes, and then as what was written.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "apps/integrity/integrity_memory.h"

namespace integrity {

class Disturber {
 public:
  explicit Disturber(std::vector<Memory*> memories);
  ~Disturber();
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

  // Ends the thread. What was changed, and how many bytes were wrong, so far.
  void stop();
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(); }
  [[nodiscard]] std::uint64_t errors() const { return errors_.load(); }

 private:
  void run();
  void disturb_file(Memory& memory, std::uint64_t turn);
  void disturb_spare(Memory& memory, std::uint64_t turn);

  std::vector<Memory*> memories_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::thread thread_;
};

}  // namespace integrity
