#include "verbs_shim/memory/shared_memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "verbs_shim/memory/memory_limit.h"
#include "verbs_shim/memory/memory_map.h"

namespace uroce::shim {
namespace {

using abi::MemoryPiece;
using abi::PieceKind;

constexpr std::uint64_t kPage = 4096;

// enum ibv_access_flags.
constexpr std::uint32_t kLocalWrite = 1U << 0U;
constexpr std::uint32_t kRemoteWrite = 1U << 1U;
constexpr std::uint32_t kRemoteAtomic = 1U << 3U;
constexpr std::uint32_t kMwBind = 1U << 4U;
constexpr std::uint32_t kOnDemand = 1U << 6U;
constexpr std::uint32_t kWriting = kLocalWrite | kRemoteWrite | kRemoteAtomic | kMwBind;

std::string hexadecimal(std::uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

// The rights that a kernel would pin the pages with.
Status check_rights(const MappedArea& area, std::uint32_t access) {
  const int needed = (access & kWriting) != 0 ? PROT_WRITE : PROT_READ;
  if ((area.protection & needed) != 0) {
    return ok();
  }
  return Error{EFAULT, "the memory at " + hexadecimal(area.start) +
                           (needed == PROT_WRITE
                                ? " is mapped without PROT_WRITE, which the access flags need"
                                : " is mapped without PROT_READ")};
}

class Describer {
 public:
  Describer(std::uint64_t address, std::uint64_t length, std::uint32_t access)
      : first_(address / kPage * kPage),
        end_((address + length + kPage - 1) / kPage * kPage),
        access_(access) {}

  Result<MemoryDescription> run() {
    MemoryMap map;
    for (std::uint64_t at = first_; at < end_;) {
      const auto area = map.at_or_above(at);
      if (!area || area->start > at) {
        return Error{EFAULT, "nothing is mapped at " + hexadecimal(at)};
      }
      if (Status allowed = check_rights(*area, access_); !allowed) {
        return allowed.error();
      }
      const std::uint64_t last = std::min(area->end, end_);
      append(MemoryPiece{.address = at,
                         .length = last - at,
                         .offset = 0,
                         .map_start = 0,
                         .map_end = 0,
                         .kind = PieceKind::kRemote,
                         .source = 0});
      at = last;
    }
    return std::move(description_);
  }

 private:
  void append(const MemoryPiece& piece) {
    auto& pieces = description_.pieces;
    if (!pieces.empty() && pieces.back().kind == PieceKind::kRemote &&
        piece.kind == PieceKind::kRemote) {
      pieces.back().length += piece.length;
      return;
    }
    pieces.push_back(piece);
  }

  std::uint64_t first_;
  std::uint64_t end_;
  std::uint32_t access_;
  MemoryDescription description_;
};

}  // namespace

Result<MemoryDescription> describe_memory(std::uint64_t address, std::uint64_t length,
                                          std::uint32_t access) {
  if (length == 0 || address + length < address || address + length + kPage - 1 < address) {
    return Error{EINVAL, "the range is empty or wraps around the end of the address space"};
  }
  const bool charged = (access & kOnDemand) == 0;
  if (charged) {
    if (Status charge = charge_locked_memory(address, length); !charge) {
      return charge.error();
    }
  }
  auto description = Describer(address, length, access).run();
  if (!description && charged) {
    uncharge_locked_memory(address, length);
  }
  return description;
}

void release_memory(std::uint64_t address, std::uint64_t length, std::uint32_t access) {
  if ((access & kOnDemand) == 0) {
    uncharge_locked_memory(address, length);
  }
}

Arena arena(std::uint32_t /*index*/) { return {}; }

void allow_daemon(int daemon_pid) {
  // Refused where there is no Yama, which is as good.
  static_cast<void>(::prctl(PR_SET_PTRACER, static_cast<unsigned long>(daemon_pid), 0UL, 0UL, 0UL));
}

}  // namespace uroce::shim
