#pragma once

// An allocator for the rings of a session's queue pairs: many of them share a memfd and a mapping
// on each side, which per queue pair would be most of the cost of creating one.
//
// A memory is divided into slots of one size, a number of pages. Each slot size has memories of its
// own, which double from kBytesMin to kBytesMax. Rings with more than kPackedMax bytes of entries
// have a memory to themselves. A memory is charged as long as it exists. One without rings is
// freed, except one per size, which is freed when the user's limits leave no room for others.
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
    bool packed = false;                    // for many, not for one, who has the descriptor
    std::uint32_t slots = 0;                // how many there are
    std::uint32_t fresh = 0;                // those from here on were never used
    std::uint32_t used = 0;                 // how many have rings
    std::vector<std::uint32_t> released{};  // room for all from the beginning
  };

 public:
  // A queue pair's two rings, or one, with zeroed controls; they go back when this goes. What is in
  // the entries may be what earlier ones of the session left there.
  class Rings {
   public:
    Rings() = default;
    Rings(Rings&& other) noexcept { swap(other); }
    Rings& operator=(Rings&& other) noexcept {
      Rings(std::move(other)).swap(*this);
      return *this;
    }
    ~Rings();

    // The memory that they lie in, as the program names it (kMapRings); where it is, and where they
    // are there: the controls, one after the other, and behind them the entries.
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

  // REQUIRES: outlives its rings.
  explicit RingArena(std::shared_ptr<Account> account) : account_(std::move(account)) {}

  // With so many bytes of entries, of both rings. ENOMEM beyond the limits of the user.
  Result<Rings> take(std::size_t bytes);

  // One of the memories, as the program maps it; that of one queue pair only once. EINVAL: there is
  // none of this number.
  struct Shared {
    UniqueFd descriptor;
    std::size_t length = 0;
    bool packed = false;
  };
  [[nodiscard]] Result<Shared> share(std::uint32_t number);

  [[nodiscard]] std::size_t memories() const { return memories_.size(); }

  // The space for rings with entries of this length.
  static std::size_t slot_of(std::size_t bytes);

 private:
  // Of one size.
  struct Size {
    std::size_t memories = 0;
    std::size_t bytes = 0;             // of all of them
    std::vector<Memory*> with_room{};  // the last one is filled first; room for all
  };

  Result<Memory*> make(std::size_t slot, std::size_t bytes, bool packed);
  Result<Memory*> with_room(std::size_t slot);
  void release(Memory& memory, std::uint32_t index);
  void drop(Size& size, Memory& memory);
  void drop_unused();

  std::shared_ptr<Account> account_;
  std::uint32_t last_number_ = 0;  // none is used twice: the program may still have the old one
  std::map<std::uint32_t, std::unique_ptr<Memory>> memories_;
  std::map<std::size_t, Size> sizes_;  // by slot
};

}  // namespace uroce::control
