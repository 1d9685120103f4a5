#include "dataplane/engine/turn/doorbells.h"

#include <bit>

namespace uroce {
namespace {

std::uint32_t take_lowest(std::uint64_t* bits) {
  const auto index = static_cast<std::uint32_t>(std::countr_zero(*bits));
  *bits &= *bits - 1;
  return index;
}

// Sequentially consistent, as abi::ring() is: a ringer that still saw the upper bit set has set the
// one here before it is taken. Acquires what its program put into its ring before.
std::uint64_t take(std::atomic<std::uint64_t>& bits) {
  return bits.exchange(0, std::memory_order_seq_cst);
}

void put_back(std::atomic<std::uint64_t>& bits, std::uint64_t rest) {
  if (rest != 0) {
    bits.fetch_or(rest, std::memory_order_seq_cst);
  }
}

// The slots that are collected, and the bounds of collecting them.
struct Taken {
  std::uint32_t* slots;
  std::uint32_t max;
  std::uint32_t count = 0;
  std::uint32_t in_vain = 0;  // bits of `top` with nothing below

  [[nodiscard]] bool goes_on() const { return count < max && in_vain < kBitsInVainMax; }
};

// Takes the words of a bit of `top`. Returns whether some slots had no room.
bool take_words(abi::Doorbells& bells, std::uint32_t bit, Taken* taken) {
  const std::uint32_t before = taken->count;
  const std::uint32_t first = bit * abi::kDoorbellWordsOfBit;
  for (std::uint32_t word = first; word < first + abi::kDoorbellWordsOfBit; ++word) {
    if (bells.words[word].load(std::memory_order_seq_cst) == 0) {
      continue;
    }
    if (taken->count == taken->max) {
      return true;
    }
    std::uint64_t rung = take(bells.words[word]);
    while (rung != 0 && taken->count < taken->max) {
      taken->slots[taken->count++] = word * 64 + take_lowest(&rung);
    }
    if (rung != 0) {
      put_back(bells.words[word], rung);
      return true;
    }
  }
  taken->in_vain += taken->count == before ? 1 : 0;
  return false;
}

}  // namespace

std::uint32_t take_doorbells(abi::Doorbells& bells, std::uint32_t* slots, std::uint32_t max) {
  // Relaxed: what isn't seen now is seen by a later call.
  if (bells.top.load(std::memory_order_relaxed) == 0 || max == 0) {
    return 0;
  }
  Taken taken{.slots = slots, .max = max};
  std::uint64_t bits = take(bells.top);
  while (bits != 0 && taken.goes_on()) {
    const std::uint64_t before = bits;
    if (take_words(bells, take_lowest(&bits), &taken)) {
      bits = before;
    }
  }
  put_back(bells.top, bits);
  return taken.count;
}

}  // namespace uroce
