#pragma once

// Keys: index << 8 | tag, with a random tag and a random free index, so that a stale or guessed key
// fails. One table for the daemon; lkey and rkey of a region are the same number.
//
// Workers look up without locks. Control adds and removes under a mutex.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "dataplane/base/result.h"
#include "mmu/access.h"
#include "mmu/quiescence.h"
#include "mmu/region.h"

namespace uroce {

class KeyTable {
 public:
  static constexpr std::uint32_t kKeysDefault = 262'144;
  static constexpr std::uint32_t kKeysMax = 1U << 24U;

  KeyTable(Quiescence& quiescence, std::uint32_t keys_max = kKeysDefault,
           std::uint64_t seed = std::random_device{}());
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  // Publishes the region and returns its key: `chosen`, unless that is 0. ENOMEM when the table is
  // full, EBUSY when the chosen key's index is taken, EINVAL when the region's addresses wrap. Any
  // thread but a worker.
  Result<std::uint32_t> add(std::unique_ptr<Region> region, std::uint32_t chosen = 0);

  // Takes the region out and waits until no worker can hold it, then gives it back for its mappings
  // to be released. nullptr if there is none. Any thread but a worker.
  std::unique_ptr<Region> remove(std::uint32_t key);

  // May `pd` do `rights` (AccessFlags; 0: local read) to [address, address + length) by `key`? On
  // kGranted *region is valid until the worker's next quiescent state: look it up again each turn.
  // Wraps of address + length are out of range. A length of 0 is never out of range. Workers only.
  Access check(std::uint32_t key, PdId pd, std::uint64_t address, std::uint64_t length,
               std::uint32_t rights, const Region** region) const;

 private:
  std::unique_ptr<Region> unpublish(std::uint32_t key);

  Quiescence& quiescence_;
  std::vector<std::atomic<Region*>> slots_;
  std::mutex mutex_;  // guards what follows; workers never take it
  std::vector<std::uint32_t> free_;
  std::vector<std::uint8_t> tags_;  // the last one of each index
  std::mt19937_64 random_;
};

}  // namespace uroce
