#pragma once

// The daemon-wide numbers of queue pairs, completion queues and shared receive queues, by which
// workers name objects in events, and the owner of each. Control thread only.

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "control/sessions/pooled_number.h"

namespace uroce::control {

class Session;

// The recipient of events about a numbered object.
struct Owner {
  Session* session = nullptr;
  std::uint32_t handle = 0;
};

// Allocates the numbers of one kind of object. The low 16 bits of each are unique among the
// allocated ones (the engine's table is indexed by them); a number isn't reused before 256 others
// had the same low bits.
class NumberPool {
 public:
  // Numbers whose low 16 bits are at least `first`. At most `count_max` at a time.
  NumberPool(std::uint32_t first, std::uint32_t count_max, std::uint64_t seed);

  // Empty if all numbers are taken or, with `chosen`, if that number (or its low 16 bits) is.
  [[nodiscard]] PooledNumber<NumberPool> take(const Owner& owner, std::uint32_t chosen = 0);
  [[nodiscard]] const Owner* find(std::uint32_t number) const;
  [[nodiscard]] std::size_t count() const { return owners_.size(); }
  // REQUIRES: the number is taken.
  void set_owner(std::uint32_t number, const Owner& owner);

 private:
  friend class PooledNumber<NumberPool>;
  void release(std::uint32_t number) { owners_.erase(number & 0xFFFFU); }

  struct Entry {
    std::uint32_t number = 0;
    Owner owner{};
  };
  std::uint32_t first_;
  std::uint32_t count_max_;
  std::uint32_t next_;  // 24 bits
  std::unordered_map<std::uint32_t, Entry> owners_;
};

}  // namespace uroce::control
