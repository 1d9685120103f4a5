#pragma once

// A capture that comes through a pipe, made readable twice.

#include <cstddef>
#include <filesystem>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::check {

// What a pipe may bring; more is refused.
inline constexpr std::size_t kSpooledBytesMax = std::size_t{1} << 31U;

// The capture as it was named; - is standard input.
struct Source {
  std::filesystem::path file;  // can be opened any number of times
  UniqueFd spooled;            // holds a file that has no name any more
};

// A file as it is; of what can be read only once, such as a pipe, a copy without a name in TMPDIR
// (/tmp). EFBIG: it is larger than this.
[[nodiscard]] Result<Source> open_source(const std::filesystem::path& named,
                                         std::size_t bytes_max = kSpooledBytesMax);

}  // namespace uroce::check
