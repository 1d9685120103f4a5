#include "tests/unit/qp/fake_memory.h"

#include <algorithm>
#include <cstring>

#include "dataplane/qp/direct/locate.h"
#include "dataplane/qp/memory/memory.h"

namespace uroce {
namespace test {

std::function<bool(std::uint64_t address)> missing;
Access answer_where_missing = Access::kNotResident;

}  // namespace test

namespace {

std::byte* at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

Access resident(std::uint64_t address, std::uint32_t length) {
  const bool gone = length != 0 && test::missing &&
                    (test::missing(address) || test::missing(address + length - 1));
  return gone ? test::answer_where_missing : Access::kGranted;
}

Access compare_swap(std::uint64_t address, std::uint64_t compare, std::uint64_t swap,
                    std::uint64_t* original) {
  std::memcpy(original, at(address), sizeof(*original));
  if (*original == compare) {
    std::memcpy(at(address), &swap, sizeof(swap));
  }
  return Access::kGranted;
}

}  // namespace

std::uint64_t total_length(std::span<const abi::Sge> sges) {
  std::uint64_t total = 0;
  for (const abi::Sge& sge : sges) {
    total += sge.length;
  }
  return total;
}

// One entry is enough for these tests.
Access gather(const MemoryScope& /*scope*/, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, FrameWriter& writer) {
  const Access access = resident(sges[0].address + offset, length);
  if (access == Access::kGranted) {
    writer.append(at(sges[0].address + offset), length);
  }
  return access;
}

Access scatter(const MemoryScope& /*scope*/, std::span<const abi::Sge> sges, std::uint64_t offset,
               const std::byte* source, std::uint32_t length, bool /*more*/) {
  const Access access = resident(sges[0].address + offset, length);
  if (access == Access::kGranted) {
    std::copy_n(source, length, at(sges[0].address + offset));
  }
  return access;
}

Access check_remote(const MemoryScope& /*scope*/, const RemoteRange& /*range*/,
                    std::uint32_t /*rights*/) {
  return Access::kGranted;
}

Access read_remote(const MemoryScope& /*scope*/, const RemoteRange& range, FrameWriter& writer) {
  const Access access = resident(range.address, range.length);
  if (access == Access::kGranted) {
    writer.append(at(range.address), range.length);
  }
  return access;
}

Access write_remote(const MemoryScope& /*scope*/, const RemoteRange& range,
                    const std::byte* source) {
  const Access access = resident(range.address, range.length);
  if (access == Access::kGranted) {
    std::copy_n(source, range.length, at(range.address));
  }
  return access;
}

Access compare_swap_remote(const MemoryScope& /*scope*/, const RemoteRange& range,
                           std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
  const Access access = resident(range.address, range.length);
  return access == Access::kGranted ? compare_swap(range.address, compare, swap, original) : access;
}

Access store_remote(const MemoryScope& /*scope*/, const RemoteRange& range, std::uint64_t value) {
  const Access access = resident(range.address, range.length);
  if (access == Access::kGranted) {
    std::memcpy(at(range.address), &value, sizeof(value));
  }
  return access;
}

Access flush_remote(const MemoryScope& /*scope*/, const RemoteRange& range, bool /*whole_region*/,
                    std::uint32_t /*rights*/) {
  return resident(range.address, range.length);
}

Access fetch_add_remote(const MemoryScope& /*scope*/, const RemoteRange& range, std::uint64_t add,
                        std::uint64_t* original) {
  const Access access = resident(range.address, range.length);
  if (access != Access::kGranted) {
    return access;
  }
  std::memcpy(original, at(range.address), sizeof(*original));
  return compare_swap(range.address, *original, *original + add, original);
}

Access locate(const MemoryScope& /*scope*/, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, ByteRuns* runs) {
  const Access access = resident(sges[0].address + offset, length);
  return access == Access::kGranted && runs->add(at(sges[0].address + offset), length)
             ? Access::kGranted
             : Access::kLost;
}

Access locate_remote(const MemoryScope& /*scope*/, const RemoteRange& range, ByteRuns* runs) {
  const Access access = resident(range.address, range.length);
  return access == Access::kGranted && runs->add(at(range.address), range.length) ? Access::kGranted
                                                                                  : Access::kLost;
}

}  // namespace uroce
