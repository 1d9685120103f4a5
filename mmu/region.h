#pragma once

// A memory region as the datapath sees it: an address range that programs and peers name by key,
// and where its bytes are in the daemon's own address space.
//
// Owned by the KeyTable. Immutable after it was published there, so that workers read it without
// locks; freed only after every worker passed a quiescent state (mmu/quiescence.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mmu/access.h"

namespace uroce {

using PdId = std::uint32_t;  // a protection domain, unique in the daemon

// A run of bytes of a region and how to reach it.
struct Span {
  std::byte* host = nullptr;  // in the daemon; nullptr: reach it with process_vm_readv/writev
  std::uint64_t remote_address = 0;  // in the program, for process_vm_*
  std::size_t length = 0;
};

class Region {
 public:
  // One mapping after the other; together they cover [address, address + length).
  struct Piece {
    std::uint64_t start = 0;  // distance from the region's first byte
    std::uint64_t length = 0;
    std::byte* host = nullptr;         // nullptr: fall-back by process_vm_*
    std::uint64_t remote_address = 0;  // the program's own address of the piece
  };

  struct Config {
    PdId pd = 0;
    std::uint32_t access = 0;   // AccessFlags
    std::uint64_t iova = 0;     // the address by which work requests and peers name the first byte
    std::uint64_t length = 0;   // bytes
    std::vector<Piece> pieces;  // sorted by start, without gaps
    int pid = 0;                // of the program, for process_vm_*
    // What keeps the pieces mapped; given back with the region. The datapath doesn't look at it.
    std::vector<std::shared_ptr<const void>> mappings;
  };

  explicit Region(Config config);

  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] PdId pd() const { return config_.pd; }
  [[nodiscard]] std::uint32_t access() const { return config_.access; }
  [[nodiscard]] std::uint64_t iova() const { return config_.iova; }
  [[nodiscard]] std::uint64_t length() const { return config_.length; }
  [[nodiscard]] int pid() const { return config_.pid; }
  [[nodiscard]] std::uint32_t remote_pieces() const;  // how many are reached by process_vm_*

  // The longest contiguous run at `address`, at most `length` bytes; kNotResident where a page must
  // be brought in first (`write` says for what). REQUIRES: [address, address + length) is inside
  // the region (KeyTable::check).
  Access translate(std::uint64_t address, std::size_t length, bool write, Span* span) const;

 private:
  friend class KeyTable;
  Config config_;
  std::uint32_t key_ = 0;
};

}  // namespace uroce
