#include "verbs_shim/objects/registry.h"

#include <algorithm>
#include <cstdlib>

namespace uroce::shim {

Registry::~Registry() { std::free(entries_); }

std::uint64_t Registry::add(Kind kind, void* object) {
  std::uint64_t cookie = 0;
  pthread_mutex_lock(&mutex_);
  if (first_free_ == 0 && size_ == capacity_) {
    const std::uint32_t wanted = std::max(16U, capacity_ * 2);
    void* grown = std::realloc(entries_, wanted * sizeof(Entry));
    if (grown != nullptr) {
      entries_ = static_cast<Entry*>(grown);
      capacity_ = wanted;
    }
  }
  std::uint32_t index = 0;
  bool found = false;
  if (first_free_ != 0) {
    index = first_free_ - 1;
    first_free_ = entries_[index].next_free;
    found = true;
  } else if (size_ < capacity_) {
    index = size_++;
    entries_[index].generation = 0;
    found = true;
  }
  if (found) {
    Entry& entry = entries_[index];
    entry.object = object;
    entry.kind = kind;
    ++entry.generation;
    cookie = std::uint64_t{entry.generation} << 32U | (index + 1);
  }
  pthread_mutex_unlock(&mutex_);
  return cookie;
}

void Registry::remove(std::uint64_t cookie) {
  pthread_mutex_lock(&mutex_);
  if (find(cookie) != nullptr) {
    const auto index = static_cast<std::uint32_t>(cookie) - 1;
    entries_[index].object = nullptr;
    entries_[index].next_free = first_free_;
    first_free_ = index + 1;
  }
  pthread_mutex_unlock(&mutex_);
}

void* Registry::find(std::uint64_t cookie) const {
  const auto position = static_cast<std::uint32_t>(cookie);
  if (position == 0 || position > size_) {
    return nullptr;
  }
  const Entry& entry = entries_[position - 1];
  return entry.generation == cookie >> 32U ? entry.object : nullptr;
}

}  // namespace uroce::shim
