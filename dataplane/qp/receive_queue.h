#pragma once

// A receive queue (a QP's own, or one shared by several): the consumer of the ring in which the
// program posts receive work requests. Copies each entry once; what the program does to the ring
// afterwards changes nothing.

#include <array>
#include <atomic>
#include <cstdint>

#include "dataplane/abi/ring.h"
#include "dataplane/abi/work_request.h"

namespace uroce {

class EventSink;

inline constexpr std::uint32_t kSgeMax = 32;

// A receive work request in the daemon's hands.
struct ReceiveEntry {
  std::uint64_t wr_id = 0;
  std::uint32_t sge_count = 0;
  std::array<abi::Sge, kSgeMax> sges{};
};

class ReceiveQueue {
 public:
  enum class [[nodiscard]] Take : std::uint8_t{kTaken, kEmpty, kBroken};

  // `shared`: queue pairs of several workers take from it (a shared receive queue with more than
  // one worker).
  ReceiveQueue(std::uint32_t handle, abi::RingControl* control, const std::byte* entries,
               std::uint32_t entry_count, std::uint32_t stride, std::uint32_t sge_max, bool shared);

  // The next work request. kBroken: the program wrote nonsense into its ring (a distance larger
  // than the ring, more SGEs than it may have). Only the bytes of the SGEs in use are copied.
  Take take(ReceiveEntry* entry);

  [[nodiscard]] bool empty() const;

  // For a queue pair that goes to RESET: what was posted is forgotten, without completions.
  void reset();

  // From now on, until reset(), the program rings for each receive that it posts. REQUIRES: the
  // queue belongs to one queue pair.
  void ask_for_doorbells();

  [[nodiscard]] std::uint32_t handle() const { return handle_; }
  [[nodiscard]] std::uint32_t sge_max() const { return sge_max_; }

 private:
  std::uint32_t handle_;
  abi::RingControl* control_;
  const std::byte* entries_;
  std::uint32_t mask_;
  std::uint32_t stride_;
  std::uint32_t sge_max_;
  std::uint32_t consumer_ = 0;  // ours
  bool shared_;
  bool broken_ = false;
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
};

}  // namespace uroce
