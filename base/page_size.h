#pragma once

// Whether the kernel's pages are those that uroce is built for (base/page.h). Rings, regions,
// mirrors of programs' memory and what daemon and program tell each other about it are in these.

#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/page.h"
#include "base/refusal.h"

namespace uroce {

// Error: ENOTSUP, with a sentence that says which pages the kernel has and which it should have.
// `bytes`: of a page of the running kernel, unless a test has another one.
inline DoneOrRefusal check_page_size(
    std::size_t bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
  if (bytes == kPage) {
    return Done{};
  }
  return Refusal{ENOTSUP,
                 Sentence::composed("this kernel has pages of %zu KiB, but uroce needs one with "
                                    "pages of %zu KiB, as Debian's linux-image-arm64 has them",
                                    bytes / 1'024, kPage / 1'024)};
}

}  // namespace uroce
