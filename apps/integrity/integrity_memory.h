#pragma once

// Where the bytes lie that peers read and write: ordinary heap memory, or memory that is paged on
// demand and that a thread keeps changing under the traffic (integrity_disturb.h).

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace integrity {

enum class Odp : std::uint8_t { kNo, kExplicit, kImplicit };

// Whole pages. On demand: the buffer, then pages that no peer ever touches but that belong to the
// same region and lie in the same chunks.
class Memory {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kSparePages = 16;

  // A buffer in a file of memory keeps its bytes when it is unmapped and mapped again; one without
  // loses them.
  Memory(std::size_t size, Odp odp, bool in_file);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return start_; }
  [[nodiscard]] std::size_t length() const { return length_; }  // in bytes, spare pages and all
  [[nodiscard]] bool in_file() const { return file_ >= 0; }
  [[nodiscard]] bool spared() const { return mapped_; }  // has spare pages: on demand

  // Puts the bytes of the file there anew, in one call, so that they never aren't there.
  void map_again(std::size_t offset, std::size_t length);
  // Private memory reads as zeroes afterwards; a file's bytes stay.
  void drop(std::size_t offset, std::size_t length);
  // Unmaps and maps private memory.
  void replace(std::size_t offset, std::size_t length);

  [[nodiscard]] std::uint8_t* spare() const { return start_ + length_ - kSparePages * kPage; }

 private:
  std::vector<std::uint8_t> heap_;
  std::uint8_t* start_ = nullptr;
  std::size_t length_ = 0;
  int file_ = -1;
  bool mapped_ = false;
};

}  // namespace integrity
