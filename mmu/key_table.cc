#include "mmu/key_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/spin_lock.h"

namespace uroce {
namespace {

constexpr std::uint32_t kTags = 256;

bool wraps(const Region& region) {
  return region.length() != 0 && region.iova() + (region.length() - 1) < region.iova();
}

}  // namespace

KeyTable::KeyTable(Quiescence& quiescence, std::uint32_t keys_max, std::uint64_t seed)
    : quiescence_(quiescence),
      windows_(quiescence, keys_max, keys_max / kRegionsPerWindow, seed + 1),
      slots_(keys_max),
      tags_(keys_max),
      random_(seed) {
  static_assert(kTags == 1U << kKeyTagBits);
  UROCE_CHECK(keys_max > 1 && keys_max + keys_max / kRegionsPerWindow <= kKeysMax);
  // Index 0 stays unused, so that 0, which programs pass by mistake, is never a key.
  free_.reserve(keys_max - 1);
  for (std::uint32_t index = 1; index < keys_max; ++index) {
    free_.push_back(index);
  }
  for (std::uint8_t& tag : tags_) {
    tag = static_cast<std::uint8_t>(random_());
  }
}

KeyTable::~KeyTable() {
  for (std::atomic<Region*>& slot : slots_) {
    delete slot.load(std::memory_order_relaxed);  // no worker is left
  }
}

Result<std::uint32_t> KeyTable::add(std::unique_ptr<Region> region, std::uint32_t chosen) {
  if (wraps(*region)) {
    return Error{EINVAL, "the region's addresses wrap around the end of the address space"};
  }
  switch (const Published published = publish(std::move(region), chosen); published.error) {
    case ENOMEM:
      return Error{ENOMEM, "all " + std::to_string(slots_.size() - 1) +
                               " memory keys of the daemon are in use"};
    case EBUSY:
      return Error{EBUSY, "the chosen memory key is taken, or isn't one"};
    default:
      return published.key;
  }
}

KeyTable::Published KeyTable::publish(std::unique_ptr<Region> region, std::uint32_t chosen) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    return {.error = ENOMEM};
  }
  const auto place = chosen == 0
                         ? free_.begin() + static_cast<std::ptrdiff_t>(random_() % free_.size())
                         : std::find(free_.begin(), free_.end(), key_index(chosen));
  if (place == free_.end()) {
    return {.error = EBUSY};
  }
  std::swap(*place, free_.back());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  // Never the tag that the index had before: a key just removed must fail for certain.
  std::uint8_t& tag = tags_[index];
  tag = static_cast<std::uint8_t>(chosen != 0 ? chosen : tag + 1 + random_() % (kTags - 1));
  const std::uint32_t key = index << kKeyTagBits | tag;
  region->key_ = key;
  // Release: pairs with check()'s acquire, so that a worker that sees the region sees all of it.
  slots_[index].store(region.release(), std::memory_order_release);
  return {.key = key};
}

std::unique_ptr<Region> KeyTable::unpublish(std::uint32_t key) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t index = key_index(key);
  if (index >= slots_.size()) {
    return nullptr;
  }
  // Relaxed: all stores happened under the mutex.
  std::unique_ptr<Region> region(slots_[index].load(std::memory_order_relaxed));
  if (region == nullptr || region->key() != key) {
    (void)region.release();
    return nullptr;
  }
  // Relaxed: quiescence, not this store, orders what follows after the workers' last access.
  slots_[index].store(nullptr, std::memory_order_relaxed);
  free_.push_back(index);
  return region;
}

std::unique_ptr<Region> KeyTable::withdraw(std::uint32_t key) {
  std::unique_ptr<Region> region = unpublish(key);
  if (region == nullptr) {
    return nullptr;
  }
  // A pass misses a window that a worker is just binding: the region is pinned first. Once it is
  // retired, each worker is in the middle of at most one bind, so the passes end when it goes on.
  SpinWait spin;
  for (bool bound = !region->retire(); bound; bound = !region->close()) {
    windows_.release_region(*region);
    spin.wait();
  }
  return region;
}

std::unique_ptr<Region> KeyTable::remove(std::uint32_t key) {
  std::unique_ptr<Region> region = withdraw(key);
  if (region != nullptr) {
    wait_until_unused({&region, 1});
  }
  return region;
}

void KeyTable::remove_all(std::span<const std::uint32_t> keys) {
  UROCE_CHECK(keys.size() <= kKeysAtOnce);
  std::array<std::unique_ptr<Region>, kKeysAtOnce> regions;
  std::transform(keys.begin(), keys.end(), regions.begin(),
                 [this](std::uint32_t key) { return withdraw(key); });
  if (!keys.empty()) {
    wait_until_unused(std::span(regions).first(keys.size()));
  }
}

bool KeyTable::close(std::uint32_t key) {
  const std::lock_guard lock(mutex_);
  const Region* region = slots_[key_index(key)].load(std::memory_order_relaxed);
  return region == nullptr || region->close();
}

bool KeyTable::retire(std::uint32_t key) {
  const std::lock_guard lock(mutex_);
  const Region* region = slots_[key_index(key)].load(std::memory_order_relaxed);
  return region == nullptr || region->retire();
}

Result<std::unique_ptr<Region>> KeyTable::replace(std::uint32_t key,
                                                  std::unique_ptr<Region> region) {
  if (wraps(*region)) {
    return Error{EINVAL, "the region's addresses wrap around the end of the address space"};
  }
  std::unique_ptr<Region> old = exchange(key, std::move(region));
  if (old == nullptr) {
    return Error{EBUSY, "memory windows are bound to the region"};
  }
  wait_until_unused({&old, 1});
  return old;
}

// nullptr: windows are bound to the old one, which stays.
std::unique_ptr<Region> KeyTable::exchange(std::uint32_t key, std::unique_ptr<Region> region) {
  const std::lock_guard lock(mutex_);
  std::atomic<Region*>& slot = slots_[key_index(key)];
  if (!slot.load(std::memory_order_relaxed)->close()) {
    return nullptr;
  }
  region->key_ = key;
  // Release: pairs with check()'s acquire.
  return std::unique_ptr<Region>(slot.exchange(region.release(), std::memory_order_release));
}

// Takes those that a worker may still hold, as it hangs.
void KeyTable::wait_until_unused(std::span<std::unique_ptr<Region>> regions) {
  if (quiescence_.wait()) {
    return;
  }
  std::list<std::unique_ptr<Region>> kept;
  for (std::unique_ptr<Region>& region : regions) {
    kept.push_back(std::move(region));
  }
  const std::lock_guard lock(mutex_);
  unreclaimed_.splice(unreclaimed_.end(), kept);
}

WindowChange KeyTable::bind_window(std::uint32_t key, const WindowBind& bind,
                                   const KeyUser& user) const {
  Window* window = windows_.find(key);
  if (window == nullptr) {
    return WindowChange::kNoWindow;
  }
  const std::uint32_t index = key_index(bind.lkey);
  const Region* region =
      index < slots_.size() ? slots_[index].load(std::memory_order_acquire) : nullptr;
  if (region != nullptr && region->key() != bind.lkey) {
    region = nullptr;
  }
  return window->bind(bind, region, user);
}

WindowChange KeyTable::invalidate(std::uint32_t key, const KeyUser& user, bool remote) const {
  Window* window = windows_.find(key);
  return window == nullptr ? WindowChange::kNoWindow : window->invalidate(key, user, remote);
}

}  // namespace uroce
