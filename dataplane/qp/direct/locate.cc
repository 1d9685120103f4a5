#include "dataplane/qp/direct/locate.h"

#include "dataplane/qp/memory/memory_parts.h"

namespace uroce {
namespace {

Access add(const std::byte* start, std::size_t length, ByteRuns* runs) {
  return runs->add(start, static_cast<std::uint32_t>(length)) ? Access::kGranted : Access::kLost;
}

Access locate_part(const MemoryScope& scope, const MemoryPart& part, ByteRuns* runs) {
  return for_each_span(scope, part, false, [&](const Span& span, std::size_t) {
    return add(span.host, span.length, runs);
  });
}

// locate() for bytes that aren't directly accessible in one run.
[[gnu::noinline]] Access locate_parts(const MemoryScope& scope, std::span<const abi::Sge> sges,
                                      std::uint64_t offset, std::uint32_t length, ByteRuns* runs) {
  return for_each_sge(scope, sges, offset, length, 0,
                      [&](const Region& region, std::uint64_t address, std::uint32_t part,
                          std::uint32_t, std::size_t) {
                        return locate_part(scope, MemoryPart{region, address, part}, runs);
                      });
}

}  // namespace

Access locate(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, ByteRuns* runs) {
  const std::byte* const host = mapped_bytes(scope, sges, offset, length, 0);
  return host != nullptr ? add(host, length, runs)
                         : locate_parts(scope, sges, offset, length, runs);
}

Access locate_remote(const MemoryScope& scope, const RemoteRange& range, ByteRuns* runs) {
  if (range.length == 0) {
    return Access::kGranted;
  }
  Granted granted;
  const Access access = find_remote(scope, range, kAccessRemoteRead, &granted);
  return access == Access::kGranted
             ? locate_part(scope, MemoryPart{*granted.region, granted.address, range.length}, runs)
             : access;
}

}  // namespace uroce
