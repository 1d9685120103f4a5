#include "mmu/copies/copy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "mmu/copies/forward_copy.h"
#include "mmu/copies/ordered_copy.h"
#include "mmu/copies/small_copy.h"
#include "mmu/proc_mem/proc_mem.h"

namespace uroce {
namespace {

// Serialise atomics on memory that isn't mapped, by the offset in its page. Queue pairs of several
// workers may access one counter, hence a lock; the access under it is a system call anyway. The
// lock depends only on the low bits of the address, so that a word that several programs (or one,
// twice) have mapped at different addresses has one lock.
std::mutex& remote_lock(std::uint64_t address) {
  static std::array<std::mutex, 64> locks;
  return locks[address / sizeof(std::uint64_t) % locks.size()];
}

std::uint64_t* word(const Span& span) { return reinterpret_cast<std::uint64_t*>(span.host); }

bool overlap(const std::byte* a, const std::byte* b, std::size_t length) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return std::max(first, second) - std::min(first, second) < length;
}

bool move_guarded(std::byte* destination, const std::byte* source, std::size_t length) {
  return guarded([&] { std::memmove(destination, source, length); });
}

}  // namespace

bool copy_from(const Region& region, const Span& source, std::byte* destination) {
  if (source.host == nullptr) {
    if (region.null()) {
      std::memset(destination, 0, source.length);
      return true;
    }
    return read_program(region.remote(), source.remote_address, destination, source.length);
  }
  return guarded([&] { std::memcpy(destination, source.host, source.length); });
}

bool copy_to(const Region& region, const Span& destination, const std::byte* source) {
  if (destination.host == nullptr) {
    return region.null() ||
           write_program(region.remote(), destination.remote_address, source, destination.length);
  }
  return copy_mapped_in_order(destination.host, source, destination.length);
}

bool copy_mapped(std::byte* destination, const std::byte* source, std::size_t length) {
  if (length <= kSmallCopyMax) {
    return length == 0 || copy_small(destination, source, length);
  }
  if (overlap(destination, source, length)) {
    return move_guarded(destination, source, length);
  }
  if (length <= kForwardCopyMax) {
    return copy_forward(destination, source, length);
  }
  // Stores of what follows memmove() aren't seen before its own, whichever instructions it uses.
  const std::size_t body = length - kForwardCopyMin;
  return move_guarded(destination, source, body) &&
         copy_forward(destination + body, source + body, kForwardCopyMin);
}

// seq_cst on mapped words: the program's processor and other workers see one order of all atomics,
// as with a card on the bus. It costs nothing extra on amd64, a little on arm64.

bool compare_and_swap(const Region& region, const Span& span, std::uint64_t compare,
                      std::uint64_t swap, std::uint64_t* original) {
  if (span.host != nullptr) {
    std::uint64_t expected = compare;
    const bool there = guarded([&] {
      std::atomic_ref<std::uint64_t>(*word(span)).compare_exchange_strong(expected, swap);
    });
    *original = expected;
    return there;
  }
  const std::lock_guard lock(remote_lock(span.remote_address));
  return swap_program_word(region.remote(), span.remote_address, compare, swap, original);
}

bool swap_program_word(int memory, std::uint64_t address, std::uint64_t compare, std::uint64_t swap,
                       std::uint64_t* original) {
  if (!read_program(memory, address, original, sizeof(*original))) {
    return false;
  }
  return *original != compare || write_program(memory, address, &swap, sizeof(swap));
}

bool fetch_and_add(const Region& region, const Span& span, std::uint64_t add,
                   std::uint64_t* original) {
  if (span.host != nullptr) {
    return guarded([&] { *original = std::atomic_ref<std::uint64_t>(*word(span)).fetch_add(add); });
  }
  const std::lock_guard lock(remote_lock(span.remote_address));
  return add_program_word(region.remote(), span.remote_address, add, original);
}

bool add_program_word(int memory, std::uint64_t address, std::uint64_t add,
                      std::uint64_t* original) {
  if (!read_program(memory, address, original, sizeof(*original))) {
    return false;
  }
  const std::uint64_t sum = *original + add;
  return write_program(memory, address, &sum, sizeof(sum));
}

bool store_word(const Region& region, const Span& span, std::uint64_t value) {
  if (span.host != nullptr) {
    return guarded([&] { std::atomic_ref<std::uint64_t>(*word(span)).store(value); });
  }
  const std::lock_guard lock(remote_lock(span.remote_address));
  return write_program(region.remote(), span.remote_address, &value, sizeof(value));
}

}  // namespace uroce
