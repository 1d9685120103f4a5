#include "dataplane/wire/sack.h"

#include <algorithm>

#include "dataplane/wire/layout.h"

namespace uroce {
namespace {

constexpr std::uint32_t kMark = 0x75'72'6F'63;  // "uroc"
constexpr std::uint32_t kBitsInByte = 8;
constexpr std::size_t kHeadBytes = 8;
constexpr std::size_t kAlignment = 4;

struct Head {
  layout::Be32 mark;
  layout::Be32 serial;
};
static_assert(sizeof(Head) == kHeadBytes);

}  // namespace

std::array<std::byte, kSackRequestBytes> sack_request() {
  std::array<std::byte, kSackRequestBytes> payload{};
  layout::view<layout::Be32>(payload.data()).store(kMark);
  return payload;
}

bool is_sack_request(std::span<const std::byte> payload) {
  return payload.size() == kSackRequestBytes &&
         layout::view<layout::Be32>(payload.data()).load() == kMark;
}

std::size_t write_sack(const Sack& sack, std::span<std::byte, kSackBytesMax> payload) {
  auto& head = layout::view<Head>(payload.data());
  head.mark.store(kMark);
  head.serial.store(sack.serial);
  const std::size_t bytes = (sack.psns + kBitsInByte - 1) / kBitsInByte;
  const std::size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::fill_n(payload.begin() + kHeadBytes, padded, std::byte{0});
  for (std::uint32_t i = 0; i < sack.psns; ++i) {
    if (sack.received[i]) {
      payload[kHeadBytes + i / kBitsInByte] |= std::byte{1} << i % kBitsInByte;
    }
  }
  return kHeadBytes + padded;
}

std::optional<Sack> parse_sack(std::span<const std::byte> payload) {
  if (payload.size() < kHeadBytes || payload.size() > kSackBytesMax) {
    return std::nullopt;
  }
  const auto& head = layout::view<Head>(payload.data());
  if (head.mark.load() != kMark) {
    return std::nullopt;
  }
  const auto bits = payload.subspan(kHeadBytes);
  Sack sack{.serial = head.serial.load()};
  for (std::uint32_t i = 0; i < bits.size() * kBitsInByte; ++i) {
    if ((bits[i / kBitsInByte] & std::byte{1} << i % kBitsInByte) != std::byte{0}) {
      sack.received.set(i);
      sack.psns = i + 1;
    }
  }
  return sack;
}

}  // namespace uroce
