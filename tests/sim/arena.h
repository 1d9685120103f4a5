#pragma once

// A node's registered memory, and a shadow of its expected contents: every operation is applied to
// the shadow when it is known to have happened. At the end both must be equal byte by byte, except
// where an operation failed half way (uncertain).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace uroce::sim {

class Arena {
 public:
  static constexpr std::size_t kPage = 4096;

  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Reserves the next `bytes` of it; offsets from the start. REQUIRES: they fit.
  [[nodiscard]] std::size_t reserve(std::size_t bytes);

  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  [[nodiscard]] std::size_t offset(std::uint64_t address) const {
    return static_cast<std::size_t>(address - this->address(0));
  }

  // The program writes: to memory and shadow alike.
  void write(std::size_t offset, std::span<const std::byte> bytes);
  // The card is known to have written these bytes, or to be going to.
  void expect(std::size_t offset, std::span<const std::byte> bytes);
  void forget(std::size_t offset, std::size_t length);  // contents are uncertain

  [[nodiscard]] bool holds(std::size_t offset, std::span<const std::byte> bytes) const;

  // Empty if memory and shadow agree, else where they differ.
  [[nodiscard]] std::string compare() const;

  // The pages of the memory are in a file with twice as many places: page n is at place n at first.
  [[nodiscard]] int file() const { return file_.get(); }
  [[nodiscard]] std::size_t pages() const { return places_.size(); }
  [[nodiscard]] std::size_t place(std::size_t page) const { return places_[page]; }
  // Moves a page to another place of the file, as a program's mremap or copy-on-write would, and
  // overwrites the old place. REQUIRES: nobody accesses it through the file any more.
  void move(std::size_t page);

  std::span<std::byte> memory;
  std::vector<std::byte> shadow;

 private:
  UniqueFd file_;
  std::vector<std::size_t> places_;  // index: page
  std::vector<std::size_t> free_;    // places
  std::vector<bool> uncertain_;
  std::size_t reserved_ = 0;
};

}  // namespace uroce::sim
