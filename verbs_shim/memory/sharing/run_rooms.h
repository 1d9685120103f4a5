#pragma once

// Room for lists of runs (parts of arenas) that are too long for a stack. Some calls need one while
// they unmap memory, and may then neither use the heap nor map anything: it could be placed in a
// hole of the range that is about to be unmapped. So the rooms are reserved before, and stay.

#include <atomic>
#include <cstdint>

namespace uroce::shim {

struct ArenaRun {
  std::uint32_t arena;
  std::uint64_t offset, length;
};

class RunRooms {
 public:
  // Reserves the rooms, unless they are. Without memory for them there are none.
  void open();

  // A room for size() runs; nullptr: there is none, or all are taken. Never waits: whoever has one
  // may be in another library's hook.
  ArenaRun* take();
  void give_back(ArenaRun* room);
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // For a fork's child, in which nobody has a room.
  void reset();

 private:
  static constexpr unsigned kRooms = 4;

  // Release: size_ is set; the hooks of the program's calls take rooms without the mutex under
  // which they are opened.
  std::atomic<ArenaRun*> runs_{nullptr};
  std::uint64_t size_ = 0;
  // Acquire and release: a room passes from one thread to another.
  std::atomic<bool> taken_[kRooms] = {};
};

}  // namespace uroce::shim
