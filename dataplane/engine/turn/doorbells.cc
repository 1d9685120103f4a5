#include "dataplane/engine/turn/doorbells.h"

#include <bit>

namespace uroce {
namespace {

constexpr std::uint64_t kGroupBits =
    abi::kDoorbellGroups == 64 ? ~0ULL : (1ULL << abi::kDoorbellGroups) - 1;

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

}  // namespace

std::uint32_t take_doorbells(abi::Doorbells& bells, std::uint32_t* slots, std::uint32_t max) {
  // Relaxed: what isn't seen now is seen by a later call.
  if (bells.top.load(std::memory_order_relaxed) == 0 || max == 0) {
    return 0;
  }
  std::uint32_t count = 0;
  std::uint32_t in_vain = 0;
  const auto goes_on = [&] { return count < max && in_vain < kWordsInVainMax; };
  std::uint64_t groups = take(bells.top) & kGroupBits;
  while (groups != 0 && goes_on()) {
    const std::uint32_t group = take_lowest(&groups);
    std::uint64_t words = take(bells.groups[group]);
    while (words != 0 && goes_on()) {
      const std::uint32_t word = group * 64 + take_lowest(&words);
      std::uint64_t rung = take(bells.words[word]);
      in_vain += rung == 0 ? 1 : 0;
      while (rung != 0 && count < max) {
        slots[count++] = word * 64 + take_lowest(&rung);
      }
      put_back(bells.words[word], rung);
      words |= rung != 0 ? 1ULL << (word % 64) : 0;
    }
    put_back(bells.groups[group], words);
    groups |= words != 0 ? 1ULL << group : 0;
  }
  put_back(bells.top, groups);
  return count;
}

}  // namespace uroce
