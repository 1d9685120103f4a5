#include "verbs_shim/memory/pinned/pinned_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/page.h"
#include "verbs_shim/memory/hooks/watching.h"

namespace uroce::shim {
namespace {

// enum ibv_access_flags: those for which a kernel pins pages for writing.
constexpr std::uint32_t kLocalWrite = 1U << 0U;
constexpr std::uint32_t kRemoteWrite = 1U << 1U;
constexpr std::uint32_t kRemoteAtomic = 1U << 3U;
constexpr std::uint32_t kMwBind = 1U << 4U;
constexpr std::uint32_t kWriting = kLocalWrite | kRemoteWrite | kRemoteAtomic | kMwBind;

std::string hexadecimal(std::uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

}  // namespace

Result<MemoryDescription> PinnedRange::describe(std::uint64_t address, std::uint64_t length,
                                                std::uint32_t access) {
  writing_ = (access & kWriting) != 0;
  RangeDescriber().run(state_,
                       {.start = page_floor(address),
                        .end = page_ceil(address + length),
                        .rights = writing_ ? PROT_WRITE : PROT_READ,
                        .on_demand = false},
                       *this);
  if (!refusal_.empty()) {
    return Error{state_.map.failed() ? ENOMEM : EFAULT, std::move(refusal_)};
  }
  for (std::uint32_t i = 0; i < files_.count(); ++i) {
    description_.descriptors.push_back(files_.take(i));
  }
  return std::move(description_);
}

bool PinnedRange::nothing_mapped(std::uint64_t address) {
  refusal_ = state_.map.failed() ? kMapCantBeRead : "nothing is mapped at " + hexadecimal(address);
  return false;
}

// The rights with which a kernel would pin the pages.
bool PinnedRange::no_access(std::uint64_t address) {
  refusal_ = "the memory at " + hexadecimal(address) +
             (writing_ ? " is mapped without PROT_WRITE, which the access flags need"
                       : " is mapped without PROT_READ");
  return false;
}

bool PinnedRange::place(const MappedArea& area, bool writable,
                        std::optional<std::uint32_t>* place) {
  *place = files_.place_of(area, writable);
  return true;
}

bool PinnedRange::put(const abi::MemoryPiece& piece, int /*protection*/) {
  auto& pieces = description_.pieces;
  if (pieces.empty() || !join(pieces.back(), piece)) {
    pieces.push_back(piece);
  }
  return true;
}

bool PinnedRange::may_convert(const MappedArea& /*area*/) {
  Status watched = watch_converted(state_);
  if (!watched) {
    description_.unconverted_reason = watched.error().message;
  }
  return watched.has_value();
}

int PinnedRange::convert(const Conversion& conversion) {
  const int failed = state_.converter.run(conversion);
  if (failed == 0) {
    description_.converted.push_back({.start = conversion.start, .length = conversion.length});
  }
  return failed;
}

}  // namespace uroce::shim
