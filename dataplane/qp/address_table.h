#pragma once

// The address handles of one session as its UD queue pairs see them: from handle to address vector.
// Control publishes and withdraws, workers look up without locks for each datagram.
//
// The program names a handle in every send and may name any: one that doesn't exist, or belongs to
// another protection domain, fails only that work request.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "dataplane/wire/build.h"
#include "mmu/region.h"

namespace uroce {

// Where a datagram goes. Never changes once published.
struct AddressVector {
  PdId pd = 0;
  FrameTemplate frame{};
};

class AddressTable {
 public:
  static constexpr std::uint32_t kHandlesMax = 524'288;

  AddressTable() = default;
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;
  ~AddressTable() {
    for (auto& place : chunks_) {
      const std::unique_ptr<Chunk> chunk(place.load(std::memory_order_relaxed));
      for (std::uint32_t i = 0; chunk != nullptr && i < kChunk; ++i) {
        delete chunk->slots[i].load(std::memory_order_relaxed);  // no worker is left
      }
    }
  }

  // Workers. nullptr if there is none; valid until the worker's next turn.
  [[nodiscard]] const AddressVector* find(std::uint32_t handle) const {
    if (handle >= kHandlesMax) {
      return nullptr;
    }
    // Acquire, here and below: pairs with put()'s release, so that who sees it sees all of it.
    const Chunk* chunk = chunks_[handle / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr
                            : chunk->slots[handle % kChunk].load(std::memory_order_acquire);
  }

  // Control. Publishes `address` (nullptr: withdraws) and gives back what was there before, to be
  // freed when each worker has ended its turn. REQUIRES: handle < kHandlesMax
  std::unique_ptr<const AddressVector> put(std::uint32_t handle,
                                           std::unique_ptr<const AddressVector> address) {
    std::atomic<Chunk*>& place = chunks_[handle / kChunk];
    if (place.load(std::memory_order_relaxed) == nullptr) {
      place.store(new Chunk, std::memory_order_release);
    }
    Chunk& chunk = *place.load(std::memory_order_relaxed);
    return std::unique_ptr<const AddressVector>(
        chunk.slots[handle % kChunk].exchange(address.release(), std::memory_order_acq_rel));
  }

 private:
  static constexpr std::uint32_t kChunk = 512;
  struct Chunk {
    std::array<std::atomic<const AddressVector*>, kChunk> slots{};
  };
  std::array<std::atomic<Chunk*>, kHandlesMax / kChunk> chunks_{};
};

}  // namespace uroce
