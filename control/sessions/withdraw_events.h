#pragma once

// Takes back what a program hasn't read of a pipe into which the daemon writes records: events of
// an object that is destroyed, which would wake the program for nothing (in Linux they go with the
// object as well).

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace uroce::control {

// Removes the records for which gone(record) holds; the others keep their order. A program that
// reads meanwhile just gets its record. `write_end` doesn't block. If others write meanwhile and
// fill the pipe, records are lost; how many is returned.
template <typename Record, typename Gone>
std::uint32_t withdraw(int write_end, Gone&& gone) {
  int waiting = 0;
  if (::ioctl(write_end, FIONREAD, &waiting) != 0 || waiting == 0) {
    return 0;
  }
  // An open file of its own for the other end: the program's stays blocking or not, as it likes.
  const std::string path = "/proc/self/fd/" + std::to_string(write_end);
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::vector<Record> kept;
  std::size_t left = static_cast<std::size_t>(waiting) / sizeof(Record);
  std::array<Record, 64> records;
  while (left != 0) {
    const ssize_t length =
        ::read(reader.get(), records.data(), std::min(left, records.size()) * sizeof(Record));
    if (length <= 0) {
      break;
    }
    const std::size_t count = static_cast<std::size_t>(length) / sizeof(Record);
    std::copy_if(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(count),
                 std::back_inserter(kept), [&](const Record& record) { return !gone(record); });
    left -= std::min(left, std::max<std::size_t>(count, 1));
  }
  std::uint32_t lost = 0;
  for (std::span<const Record> rest(kept); !rest.empty();) {
    const auto part = rest.first(std::min(rest.size(), records.size()));
    static_assert(sizeof(records) <= PIPE_BUF, "a pipe takes a part whole or not at all");
    const bool written = ::write(write_end, part.data(), part.size_bytes()) ==
                         static_cast<ssize_t>(part.size_bytes());
    lost += written ? 0 : static_cast<std::uint32_t>(part.size());
    rest = rest.subspan(part.size());
  }
  return lost;
}

}  // namespace uroce::control
