#include "verbs_shim/memory/pinned/pinned_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <cinttypes>
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

}  // namespace

OrRefusal<MemoryDescription> PinnedRange::describe(std::uint64_t address, std::uint64_t length,
                                                   std::uint32_t access) {
  writing_ = (access & kWriting) != 0;
  RangeDescriber().run(state_,
                       {.start = page_floor(address),
                        .end = page_ceil(address + length),
                        .rights = writing_ ? PROT_WRITE : PROT_READ,
                        .on_demand = false},
                       *this);
  for (std::uint32_t i = 0; refusal_.code == 0 && i < files_.count(); ++i) {
    if (!description_.descriptors.add(files_.take(i))) {
      no_heap();
    }
  }
  if (refusal_.code != 0) {
    return refusal_;
  }
  return std::move(description_);
}

bool PinnedRange::refuse(int code, const Sentence& message) {
  refusal_ = {.code = code, .message = message};
  return false;
}

// Nothing is put after that.
void PinnedRange::no_heap() { (void)refuse(ENOMEM, kNoHeap); }

bool PinnedRange::nothing_mapped(std::uint64_t address) {
  return state_.map.failed()
             ? refuse(ENOMEM, kMapCantBeRead)
             : refuse(EFAULT, Sentence::composed("nothing is mapped at 0x%" PRIx64, address));
}

// The rights with which a kernel would pin the pages.
bool PinnedRange::no_access(std::uint64_t address) {
  return refuse(EFAULT, Sentence::composed(
                            "the memory at 0x%" PRIx64 " is mapped without %s", address,
                            writing_ ? "PROT_WRITE, which the access flags need" : "PROT_READ"));
}

bool PinnedRange::place(const MappedArea& area, bool writable,
                        std::optional<std::uint32_t>* place) {
  *place = files_.place_of(area, writable);
  return true;
}

bool PinnedRange::put(const abi::MemoryPiece& piece, int /*protection*/) {
  auto& pieces = description_.pieces;
  if (refusal_.code == 0 && (pieces.empty() || !join(pieces.back(), piece)) && !pieces.add(piece)) {
    no_heap();
  }
  return refusal_.code == 0;
}

bool PinnedRange::may_convert(const MappedArea& /*area*/) {
  const DoneOrRefusal watched = watch_converted(state_);
  if (!watched) {
    description_.unconverted_reason = watched.error().message;
  }
  return static_cast<bool>(watched);
}

std::uint64_t PinnedRange::convert(const Conversion& conversion) {
  const std::uint64_t converted = state_.converter.run(conversion);
  if (converted != 0 &&
      !description_.converted.add({.start = conversion.start, .length = converted})) {
    no_heap();
  }
  return converted;
}

}  // namespace uroce::shim
