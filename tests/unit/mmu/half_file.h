#pragma once

// A file of some pages, mapped with one more: accesses to that one fault.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "base/unique_fd.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {

class HalfFile {
 public:
  explicit HalfFile(std::size_t pages = 1)
      : file_(::memfd_create("half", MFD_CLOEXEC)), bytes_(pages * kPage) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes_)), 0);
    memory_ = map();
  }
  ~HalfFile() {
    for (std::byte* mapping : {memory_, again_}) {
      if (mapping != nullptr) {
        ::munmap(mapping, bytes_ + kPage);
      }
    }
  }
  HalfFile(const HalfFile&) = delete;
  HalfFile& operator=(const HalfFile&) = delete;
  [[nodiscard]] std::byte* memory() const { return memory_; }
  // Where the missing page begins.
  [[nodiscard]] std::byte* end() const { return memory_ + bytes_; }
  // Maps the file once more, at another address.
  std::byte* map_again() { return again_ = map(); }

 private:
  std::byte* map() {
    return static_cast<std::byte*>(
        ::mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
  }

  UniqueFd file_;
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
  std::byte* again_ = nullptr;
};

}  // namespace uroce::test
