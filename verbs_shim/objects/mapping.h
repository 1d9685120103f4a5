#pragma once

// A mapping of the daemon's memory in this process: rings, doorbells, status pages.

#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace uroce::shim {

class Mapping {
 public:
  // Mappings up to this length are populated at once: a page fault takes as long as ten messages.
  static constexpr std::size_t kPopulatedMax = std::size_t{64} << 10U;

  Mapping() = default;
  ~Mapping() { reset(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Maps the first `length` bytes of the file. A file that is shorter than the daemon said is
  // refused, because touching it would be a SIGBUS. 0 or an errno value.
  int map(int descriptor, std::size_t length, int protection,
          std::size_t populated_max = kPopulatedMax) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) {
      return errno;
    }
    if (length == 0 || static_cast<std::size_t>(status.st_size) < length) {
      return EPROTO;
    }
    const int at_once = length <= populated_max ? MAP_POPULATE : 0;
    void* memory = mmap(nullptr, length, protection, MAP_SHARED | at_once, descriptor, 0);
    if (memory == MAP_FAILED) {
      return errno;
    }
    reset();
    memory_ = static_cast<std::byte*>(memory);
    length_ = length;
    return 0;
  }

  // Maps the entries of a queue that was resized, which the daemon put into a file of their own. 0
  // or an errno value; EPROTO: they aren't a power of two, or don't fit.
  int map_entries(int descriptor, std::uint64_t length, std::uint32_t count,
                  std::size_t entry_bytes) {
    if (!std::has_single_bit(count) || length / entry_bytes < count) {
      return EPROTO;
    }
    return map(descriptor, length, PROT_READ | PROT_WRITE);
  }

  void swap(Mapping& other) {
    std::swap(memory_, other.memory_);
    std::swap(length_, other.length_);
  }

  void reset() {
    if (memory_ != nullptr) {
      munmap(memory_, length_);
      memory_ = nullptr;
      length_ = 0;
    }
  }

  // The T at this offset, or nullptr if it isn't wholly inside or not aligned.
  template <typename T>
  [[nodiscard]] T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (offset > length_ || count > (length_ - offset) / sizeof(T) || offset % alignof(T) != 0) {
      return nullptr;
    }
    return reinterpret_cast<T*>(memory_ + offset);
  }

 private:
  std::byte* memory_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace uroce::shim
