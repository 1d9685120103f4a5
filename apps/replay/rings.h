#pragma once

// The program's side of the rings that it shares with the daemon, in ordinary memory: posts work,
// polls completions. The shared memory itself is public, for tests that corrupt it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi/completion.h"
#include "abi/post_stamp.h"
#include "abi/ring.h"
#include "abi/work_request.h"
#include "base/time.h"

namespace uroce {

class CompletionRing {
 public:
  explicit CompletionRing(std::uint32_t entry_count) : entries(entry_count) {}

  // The next completion, if there is one. Leaves it in the ring's memory.
  std::optional<abi::Cqe> poll();
  std::vector<abi::Cqe> poll_all();

  // Told of each completion that a program polls, if set; tests watch with it.
  static inline void (*observer)(abi::WcStatus) = nullptr;

  abi::CqControl control{};
  std::vector<abi::Cqe> entries;

 private:
  std::uint32_t consumer_ = 0;
};

// Receive or send entries.
class WorkRing {
 public:
  WorkRing(std::uint32_t entry_count, std::uint32_t stride_bytes);

  void post_receive(std::uint64_t wr_id, std::span<const abi::Sge> sges);
  void post_send(const abi::SendWr& request, std::span<const abi::Sge> sges);
  void post_inline(const abi::SendWr& request, std::span<const std::byte> bytes);

  // Entries posted and not consumed.
  [[nodiscard]] std::uint32_t waiting() const;

  // What work requests to send are stamped with where the card asks for it (abi/post_stamp.h);
  // nullptr: a program that knows nothing of stamps.
  Time (*clock)() = nullptr;

  abi::RingControl control{};
  std::vector<std::byte> entries;
  std::uint32_t entry_count;
  std::uint32_t stride;

 private:
  std::byte* slot();
  void publish();
  void publish_posted();
  std::uint32_t producer_ = 0;
};

}  // namespace uroce
