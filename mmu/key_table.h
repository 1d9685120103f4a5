#pragma once

// Memory keys: index << 8 | tag, with a random tag and a random free index, so that a stale or
// guessed key fails. One table for the daemon; lkey and rkey of a region are the same number. The
// rkeys of memory windows (window_table.h) have the indices above those of regions.
//
// Workers look up without locks. Control adds and removes under a mutex.

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"
#include "mmu/access.h"
#include "mmu/key.h"
#include "mmu/quiescence.h"
#include "mmu/region.h"
#include "mmu/window_table.h"

namespace uroce {

class KeyTable {
 public:
  static constexpr std::uint32_t kKeysDefault = 262'144;
  static constexpr std::uint32_t kKeysMax = 1U << 24U;
  static constexpr std::uint32_t kRegionsPerWindow = 4;
  static constexpr std::uint32_t kWindowsDefault = kKeysDefault / kRegionsPerWindow;

  KeyTable(Quiescence& quiescence, std::uint32_t keys_max = kKeysDefault,
           std::uint64_t seed = std::random_device{}());
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  // Publishes the region and returns its key: `chosen`, unless that is 0. ENOMEM when the table is
  // full, EBUSY when the chosen key's index is taken, EINVAL when the region's addresses wrap. Any
  // thread but a worker.
  Result<std::uint32_t> add(std::unique_ptr<Region> region, std::uint32_t chosen = 0);

  // From now on no window can be bound to the region. False if one is bound; then nothing has
  // changed.
  bool close(std::uint32_t key);
  // Before remove() of many regions: from now on no window can be bound to this one, even if one is
  // bound still, which false says. WindowTable::release_retired() then unbinds those of all
  // regions at once. Any thread but a worker.
  bool retire(std::uint32_t key);

  // Removes the region, unbinds windows that are left on it, waits until no worker can hold it, and
  // returns it so that its mappings can be released. nullptr if there is none, or a worker hangs:
  // then it stays, including its mappings. Any thread but a worker. Only if windows are bound, it
  // costs a pass over all windows of the daemon: whoever removes many retires them first.
  std::unique_ptr<Region> remove(std::uint32_t key);
  // The same for several, for which it waits once; those that no worker can hold are destroyed.
  // Allocates nothing, unless a worker hangs. REQUIRES: kKeysAtOnce at most.
  void remove_all(std::span<const std::uint32_t> keys);

  // Replaces a region by another under the same key, and returns the old one when no worker can
  // hold it; nullptr as above. EBUSY when windows are bound to the old one, EINVAL when the new
  // one's addresses wrap; then the old one stays. REQUIRES: there is one. Any thread but a worker.
  Result<std::unique_ptr<Region>> replace(std::uint32_t key, std::unique_ptr<Region> region);

  [[nodiscard]] WindowTable& windows() { return windows_; }

  // May `pd` do `rights` (AccessFlags; 0: local read) to [address, address + length) by `key`? On
  // kGranted *region is valid until the worker's next quiescent state: look it up again each turn.
  // Wraps of address + length are out of range. A length of 0 is never out of range. Workers only.
  Access check(std::uint32_t key, PdId pd, std::uint64_t address, std::uint64_t length,
               std::uint32_t rights, const Region** region) const;

  // As check(), for a key that a peer named, which may be a window's. *address becomes the region's
  // address of the same byte.
  Access check_remote(std::uint32_t key, const KeyUser& user, std::uint64_t* address,
                      std::uint64_t length, std::uint32_t rights, const Region** region) const {
    return key_index(key) < slots_.size()
               ? check(key, user.pd, *address, length, rights, region)
               : windows_.check(key, user, address, length, rights, region);
  }

  // Workers: binds the window with this key's index, whatever its tag is.
  WindowChange bind_window(std::uint32_t key, const WindowBind& bind, const KeyUser& user) const;
  // Workers: `remote`: a peer's SEND requests it. Keys of regions can't be invalidated.
  WindowChange invalidate(std::uint32_t key, const KeyUser& user, bool remote) const;

  // Workers: a change of a window is complete once grace_over() of what grace_begin() returned is
  // true: from then on no worker is in the middle of an access by the old key.
  [[nodiscard]] std::uint64_t grace_begin() const { return quiescence_.begin(); }
  [[nodiscard]] bool grace_over(std::uint64_t token) const { return quiescence_.over(token); }

 private:
  struct Published {
    std::uint32_t key = 0;
    int error = 0;  // ENOMEM, EBUSY: as add() says
  };

  // Under the mutex, so that they mustn't allocate: what is thrown wouldn't unlock it, as this is
  // built without exceptions.
  Published publish(std::unique_ptr<Region> region, std::uint32_t chosen);
  std::unique_ptr<Region> exchange(std::uint32_t key, std::unique_ptr<Region> region);
  std::unique_ptr<Region> unpublish(std::uint32_t key);
  // Out of the table, and no window is bound to it; workers may still hold it. nullptr: none.
  std::unique_ptr<Region> withdraw(std::uint32_t key);
  void wait_until_unused(std::span<std::unique_ptr<Region>> regions);

  Quiescence& quiescence_;
  WindowTable windows_;
  std::vector<std::atomic<Region*>> slots_;
  std::mutex mutex_;  // guards what follows; workers never take it
  std::vector<std::uint32_t> free_;
  std::vector<std::uint8_t> tags_;  // the last one of each index
  std::mt19937_64 random_;
  // Unpublished, but perhaps used by a stuck worker.
  std::list<std::unique_ptr<Region>> unreclaimed_;
};

inline Access KeyTable::check(std::uint32_t key, PdId pd, std::uint64_t address,
                              std::uint64_t length, std::uint32_t rights,
                              const Region** region) const {
  const std::uint32_t index = key_index(key);
  if (index >= slots_.size()) {
    return Access::kUnknownKey;
  }
  // Acquire: pairs with the release in add().
  const Region* found = slots_[index].load(std::memory_order_acquire);
  if (found == nullptr || found->key() != key) {
    return Access::kUnknownKey;
  }
  if (found->pd() != pd) {
    return Access::kWrongPd;
  }
  if ((rights & ~found->access()) != 0) {
    return Access::kNoRight;
  }
  // An address below the region becomes a distance beyond its end, because regions don't wrap.
  const std::uint64_t distance = address - found->iova();
  if (length != 0 && (distance >= found->length() || length > found->length() - distance)) {
    return Access::kOutOfRange;
  }
  *region = found;
  return Access::kGranted;
}

}  // namespace uroce
