#pragma once

// The windows of a key table. Their keys have indices above those of regions, so that one
// comparison distinguishes them. Workers look up, bind and invalidate without locks; control adds
// and removes under a mutex.

#include <atomic>
#include <cstddef>
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
#include "mmu/window.h"

namespace uroce {

// How many keys remove_all() takes, of windows as of regions: they are on its stack meanwhile.
inline constexpr std::size_t kKeysAtOnce = 256;

class WindowTable {
 public:
  WindowTable(Quiescence& quiescence, std::uint32_t first_index, std::uint32_t windows_max,
              std::uint64_t seed);
  ~WindowTable();
  WindowTable(const WindowTable&) = delete;
  WindowTable& operator=(const WindowTable&) = delete;

  // Any thread but a worker. Adds an unbound window and returns its key. ENOMEM when all are taken.
  Result<std::uint32_t> add(PdId pd, WindowType type);
  // Unbinds and removes the window, whatever its tag is now, and waits until no worker can hold it;
  // one that a worker which hangs may hold stays in memory.
  // REQUIRES: there is one.
  void remove(std::uint32_t key) { remove_all({&key, 1}); }
  // The same for several, for which it waits once. REQUIRES: kKeysAtOnce at most, all different.
  void remove_all(std::span<const std::uint32_t> keys);
  // Unbinds the window (by any key that it ever had) if it is of type 2 and bound to this queue
  // pair, which is about to be destroyed.
  void release_qp(std::uint32_t key, std::uint32_t qpn);
  // Unbinds all windows that are bound to a region, or to any retired one: one pass over all
  // windows of the daemon, some 0.1 ms per 10,000. May pass over those that are bound at this
  // moment.
  void release_region(const Region& region);
  void release_retired();

  // Workers. nullptr: none with this index, whatever the tag.
  [[nodiscard]] Window* find(std::uint32_t key) const {
    const std::uint32_t index = key_index(key) - first_index_;
    // Acquire: pairs with the release in add().
    return index < slots_.size() ? slots_[index].load(std::memory_order_acquire) : nullptr;
  }
  // As KeyTable::check_remote, for keys of windows.
  Access check(std::uint32_t key, const KeyUser& user, std::uint64_t* address, std::uint64_t length,
               std::uint32_t rights, const Region** region) const;

 private:
  template <typename Visit>
  void for_each(Visit&& visit);
  // Under the mutex, so that they mustn't allocate (key_table.h). 0: all are taken.
  std::uint32_t publish(std::unique_ptr<Window> window);
  std::unique_ptr<Window> unpublish(std::uint32_t key);

  Quiescence& quiescence_;
  std::uint32_t first_index_;
  std::vector<std::atomic<Window*>> slots_;
  std::mutex mutex_;  // guards what follows; workers never take it
  std::vector<std::uint32_t> free_;
  std::mt19937_64 random_;
  std::list<std::unique_ptr<Window>> unreclaimed_;  // removed, but perhaps used by a stuck worker
};

}  // namespace uroce
