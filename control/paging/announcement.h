#pragma once

// Parses a record of a program's invalidation channel (abi/paging_records.h), which is untrusted.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "abi/paging_records.h"
#include "abi/version.h"
#include "base/page.h"
#include "base/sockets/record_socket.h"
#include "mmu/mirror/mirror.h"

namespace uroce::control {

struct Announcement {
  std::uint32_t sequence = 0;
  bool over = false;  // the end of an invalidation that was announced before
  // Otherwise the range about to change: whole pages within a program's address space.
  std::uint64_t first = 0, end = 0;
  bool forget = false;  // the range will be mapped anew
  bool keeps = false;   // with the same contents
};

// nullopt for an invalid record.
[[nodiscard]] inline std::optional<Announcement> read_announcement(const Record& record) {
  abi::PagingHeader header;
  if (record.bytes.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, record.bytes.data(), sizeof(header));
  if (header.magic != abi::kPagingMagic || header.version != abi::kVersion ||
      header.length != record.bytes.size() || !record.descriptors.empty()) {
    return std::nullopt;
  }
  if (header.kind == abi::PagingKind::kInvalidateEnd) {
    return Announcement{.sequence = header.sequence, .over = true};
  }
  abi::Invalidate wanted;
  if (header.kind != abi::PagingKind::kInvalidate || record.bytes.size() != sizeof(wanted)) {
    return std::nullopt;
  }
  std::memcpy(&wanted, record.bytes.data(), sizeof(wanted));
  const std::uint64_t address = std::min(wanted.address, Mirror::kAddressEnd);
  const std::uint64_t length = std::min(wanted.length, Mirror::kAddressEnd - address);
  return Announcement{.sequence = header.sequence,
                      .first = page_floor(address),
                      .end = page_ceil(address + length),
                      .forget = wanted.reason != abi::InvalidateReason::kDrop,
                      .keeps = wanted.reason == abi::InvalidateReason::kProtect};
}

}  // namespace uroce::control
