#pragma once

// A memory region as the datapath sees it: an address range that programs and peers name by key,
// and the location of its bytes in the daemon's own address space.
//
// Owned by the KeyTable. Immutable after it was published there, so that workers read it without
// locks; freed only after every worker has passed a quiescent state (mmu/quiescence.h).

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mmu/access.h"

namespace uroce {

using PdId = std::uint64_t;  // a protection domain, unique in the daemon's life

class DurableMemory;
class Mirror;
class ProcMemThread;

// A contiguous run of bytes of a region, and how to access it.
struct Span {
  std::byte* host = nullptr;         // in the daemon; nullptr: accessed through Region::remote()
  std::uint64_t remote_address = 0;  // in the program, for that
  std::size_t length = 0;
};

class Region {
 public:
  // One mapping after the other; together they cover [address, address + length).
  struct Piece {
    std::uint64_t start = 0;  // distance from the region's first byte
    std::uint64_t length = 0;
    std::byte* host = nullptr;         // nullptr: through `remote`
    std::uint64_t remote_address = 0;  // the program's own address of the piece
  };

  struct Config {
    PdId pd = 0;
    std::uint32_t access = 0;   // AccessFlags
    std::uint64_t iova = 0;     // the address by which work requests and peers name the first byte
    std::uint64_t length = 0;   // bytes
    std::vector<Piece> pieces;  // sorted by start, without gaps
    int remote = -1;            // the program's memory as a file (mmu/proc_mem/proc_mem.h)
    // The thread that accesses unmapped pieces; nullptr (tests, simulations): the caller does, and
    // blocks.
    std::shared_ptr<ProcMemThread> program{};
    bool null = false;                  // there is no memory behind it; one piece without a host
    std::uint64_t program_address = 0;  // of the first byte
    // On demand: where the pages are; no pieces.
    std::shared_ptr<Mirror> mirror;
    // Keeps the pieces mapped and `remote` open until the region is destroyed. Not used by the
    // datapath.
    std::vector<std::shared_ptr<const void>> holds;
  };

  // REQUIRES: config.pieces as said there, or config.mirror.
  explicit Region(Config config);

  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] PdId pd() const { return config_.pd; }
  [[nodiscard]] std::uint32_t access() const { return config_.access; }
  [[nodiscard]] std::uint64_t iova() const { return config_.iova; }
  [[nodiscard]] std::uint64_t length() const { return config_.length; }
  [[nodiscard]] int remote() const { return config_.remote; }
  [[nodiscard]] const std::shared_ptr<ProcMemThread>& program() const { return config_.program; }
  [[nodiscard]] std::uint32_t remote_pieces() const;  // how many aren't mapped
  // Without memory: reads as zeroes, and what is written is dropped (ibv_alloc_null_mr).
  [[nodiscard]] bool null() const { return config_.null; }

  // Windows that are bound to a region keep it from being deregistered. A worker pins it: false
  // once it is closed or retired, which is final.
  [[nodiscard]] bool pin() const;
  void unpin() const { pins_.fetch_sub(1, std::memory_order_release); }  // pairs with close()
  // True if it isn't pinned, and can't be any more; false: nothing has changed.
  [[nodiscard]] bool close() const;
  // The same for a region that is going to be removed in any case: it can't be pinned any more even
  // if this is false, and once those that have pinned it unpin it, close() is true.
  [[nodiscard]] bool retire() const;
  // Whether it can't be pinned any more. Orders nothing.
  [[nodiscard]] bool unbindable() const {
    return (pins_.load(std::memory_order_relaxed) & kNoMore) != 0;
  }

  // The longest contiguous run at `address`, at most `length` bytes; kNotResident where a page must
  // be populated first (`write` says for what). REQUIRES: [address, address + length) is inside
  // the region (KeyTable::check).
  Access translate(std::uint64_t address, std::size_t length, bool write, Span* span) const {
    const std::uint64_t distance = address - config_.iova;
    if (config_.mirror != nullptr) {
      return translate_on_demand(distance, length, write, span);
    }
    const Piece& piece = distance < first_.length ? first_ : piece_at(distance);
    const std::uint64_t inside = distance - piece.start;
    span->host = piece.host == nullptr ? nullptr : piece.host + inside;
    span->remote_address = piece.remote_address + inside;
    span->length = std::min<std::uint64_t>(length, piece.length - inside);
    return Access::kGranted;
  }

  // The location of [address, address + length) in the daemon, if that is one run in the first
  // mapping of a pinned region; nullptr: use translate(). REQUIRES: as there; length isn't 0.
  [[nodiscard]] std::byte* mapped(std::uint64_t address, std::size_t length) const {
    const std::uint64_t distance = address - config_.iova;
    const bool inside = distance < first_.length && length <= first_.length - distance;
    return inside && first_.host != nullptr ? first_.host + distance : nullptr;
  }

  // On-demand regions: where the pages are. nullptr: pinned.
  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return config_.mirror; }
  // Pinned regions with kAccessFlushPersistent.
  [[nodiscard]] const std::shared_ptr<const DurableMemory>& durable() const { return durable_; }
  // The program's address of the byte at `address`.
  [[nodiscard]] std::uint64_t program_address(std::uint64_t address) const {
    return config_.program_address + (address - config_.iova);
  }

 private:
  friend class KeyTable;

  [[nodiscard]] const Piece& piece_at(std::uint64_t distance) const;
  Access translate_on_demand(std::uint64_t distance, std::size_t length, bool write,
                             Span* span) const;

  // What a look-up of a region of one piece needs, on the first cache lines.
  std::uint32_t key_ = 0;
  Piece first_;
  Config config_;
  std::shared_ptr<const DurableMemory> durable_;
  mutable std::atomic<std::uint32_t> pins_{0};         // how many, and kNoMore
  static constexpr std::uint32_t kNoMore = 1U << 31U;  // there are fewer windows than that
};

}  // namespace uroce
