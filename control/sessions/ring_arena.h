#pragma once

// An allocator for the rings of a session's queue pairs: many of them share a memfd and a mapping
// on each side, which otherwise would be most of the cost of creating a queue pair.
//
// A memory is divided into slots of one size, a number of pages. Each slot size has memories of its
// own, which double from kBytesMin to kBytesMax. Rings with more than kPackedMax bytes of entries
// have their own memory. A memory is charged as long as it exists. One without rings is freed,
// except one per size, which is freed when the user's limits require it.
//
// The program maps all of a memory, and so may overwrite all rings of its own session; rings of
// other sessions never lie there. Control thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "abi/ring.h"
#include "abi/ring_records.h"
#include "base/page.h"
#include "base/result.h"
#include "control/sessions/sealed_memory.h"
#include "shares/account.h"

namespace uroce::control {

class RingArena {
 public:
  static constexpr std::size_t kPackedMax = std::size_t{32} << 10U;
  static constexpr std::size_t kBytesMin = std::size_t{64} << 10U;
  static constexpr std::size_t kBytesMax = abi::kRingMemoryMax;

 private:
  static constexpr std::size_t kControls = 2 * sizeof(abi::RingControl);

  struct Memory {
    std::uint32_t number = 0;
    Charge descriptor;
    SealedMemory shared;
    std::size_t slot = 0;                   // bytes of controls and entries
    bool packed = false;                    // shared by many queue pairs, not owned by one
    std::uint32_t slots = 0;                // number of slots
    std::uint32_t fresh = 0;                // slots from here on were never used
    std::uint32_t used = 0;                 // slots in use
    std::vector<std::uint32_t> released{};  // free slots; capacity for all is reserved
  };

 public:
  // A queue pair's two rings, or one, with zeroed controls; the destructor releases them. Entries
  // may contain data of earlier rings of the session.
  class Rings {
   public:
    Rings() = default;
    Rings(Rings&& other) noexcept { swap(other); }
    Rings& operator=(Rings&& other) noexcept {
      Rings(std::move(other)).swap(*this);
      return *this;
    }
    ~Rings();

    // The memory that contains them, as a number for the program (kMapRings), its address, and
    // their offset there: the controls, one after the other, then the entries.
    [[nodiscard]] std::uint32_t memory() const { return memory_->number; }
    [[nodiscard]] std::byte* memory_data() const { return memory_->shared.data(); }
    [[nodiscard]] std::size_t controls() const { return index_ * memory_->slot; }
    [[nodiscard]] std::size_t entries() const { return controls() + kControls; }

   private:
    friend class RingArena;
    void swap(Rings& other) noexcept {
      std::swap(arena_, other.arena_);
      std::swap(memory_, other.memory_);
      std::swap(index_, other.index_);
    }

    RingArena* arena_ = nullptr;
    Memory* memory_ = nullptr;
    std::uint32_t index_ = 0;
  };

  // REQUIRES: the arena outlives its rings.
  explicit RingArena(std::shared_ptr<Account> account) : account_(std::move(account)) {}

  // Allocates rings with `bytes` of entries in total. ENOMEM beyond the user's limits.
  Result<Rings> take(std::size_t bytes);

  // One of the memories, for the program to map; that of a single queue pair can be taken only
  // once. EINVAL: no memory has this number.
  struct Shared {
    UniqueFd descriptor;
    std::size_t length = 0;
    bool packed = false;
  };
  [[nodiscard]] Result<Shared> share(std::uint32_t number);

  [[nodiscard]] std::size_t memories() const { return memories_.size(); }

  // The slot size for rings with `bytes` of entries.
  static std::size_t slot_of(std::size_t bytes);

 private:
  // The memories of one slot size.
  struct Size {
    std::size_t memories = 0;
    std::size_t bytes = 0;             // total length
    std::vector<Memory*> with_room{};  // the last one is filled first; capacity for all is reserved
  };

  Result<Memory*> make(std::size_t slot, std::size_t bytes, bool packed);
  Result<Memory*> with_room(std::size_t slot);
  void release(Memory& memory, std::uint32_t index);
  void drop(Size& size, Memory& memory);
  void drop_unused();

  std::shared_ptr<Account> account_;
  std::uint32_t last_number_ = 0;  // never reused: the program may still have the old memory mapped
  std::map<std::uint32_t, std::unique_ptr<Memory>> memories_;
  std::map<std::size_t, Size> sizes_;  // by slot size
};

}  // namespace uroce::control
