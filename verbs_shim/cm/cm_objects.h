#pragma once

// What is noted of the ids and memberships of one connection, for the time when the daemon is gone:
// the program is told that its ids are lost, and librdmacm frees each object when as many events
// were acknowledged as were fetched.
//
// The caller locks.

#include <cstdint>
#include <cstdlib>

namespace uroce::shim {

struct CmObject {
  std::uint64_t uid = 0;     // the program's name of an id; 0: it hasn't said yet (a request)
  std::uint32_t events = 0;  // that the program has fetched
  int channel = -1;          // the descriptor of its event channel; -1: there is no such object
  // An id that has an address, or waits for an event. The program is told when it is lost, once.
  bool in_use = false;
};

// By handle, which is a small number.
class CmObjects {
 public:
  CmObjects() = default;
  ~CmObjects() { std::free(objects_); }
  CmObjects(const CmObjects&) = delete;
  CmObjects& operator=(const CmObjects&) = delete;

  // Handles are smaller, as the daemon gives them.
  static constexpr std::uint32_t kHandlesMax = 1U << 20U;

  // A new object has the handle. nullptr: there is no memory to note it.
  CmObject* begin(std::uint32_t handle, int channel) {
    if (handle >= size_ && !grow(handle)) {
      return nullptr;
    }
    objects_[handle] = {.channel = channel};
    return &objects_[handle];
  }
  [[nodiscard]] CmObject* find(std::uint32_t handle) const {
    return handle < size_ && objects_[handle].channel >= 0 ? &objects_[handle] : nullptr;
  }
  // No handle is as high.
  [[nodiscard]] std::uint32_t handles_end() const { return size_; }

 private:
  bool grow(std::uint32_t handle) {
    if (handle >= kHandlesMax) {
      return false;
    }
    const std::uint32_t wanted = (handle | 63U) * 2;
    void* const grown = std::realloc(objects_, wanted * sizeof(*objects_));
    if (grown == nullptr) {
      return false;
    }
    objects_ = static_cast<CmObject*>(grown);
    for (; size_ < wanted; ++size_) {
      objects_[size_] = {};
    }
    return true;
  }

  CmObject* objects_ = nullptr;
  std::uint32_t size_ = 0;
};

}  // namespace uroce::shim
