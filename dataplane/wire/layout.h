#pragma once

// The headers as they lie on the wire: structs of big-endian fields without operators, padding or
// alignment. A field is read with load() and written with store(); a header is looked at in a
// buffer with view<T>(). Only this folder sees them; everybody else has the values of
// wire/headers.h.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace uroce::layout {

struct Be8 {
  std::byte byte;
  [[nodiscard]] std::uint8_t load() const { return static_cast<std::uint8_t>(byte); }
  void store(std::uint8_t value) { byte = static_cast<std::byte>(value); }
};

// bit_cast and a byte swap become one load or store with gcc 12; a loop over bytes stays a loop.
struct Be16 {
  std::array<std::byte, 2> bytes;
  [[nodiscard]] std::uint16_t load() const {
    return __builtin_bswap16(std::bit_cast<std::uint16_t>(bytes));
  }
  void store(std::uint16_t value) {
    bytes = std::bit_cast<decltype(bytes)>(__builtin_bswap16(value));
  }
};

struct Be32 {
  std::array<std::byte, 4> bytes;
  [[nodiscard]] std::uint32_t load() const { return __builtin_bswap32(raw()); }
  void store(std::uint32_t value) { set_raw(__builtin_bswap32(value)); }
  // The four bytes in the order of the wire, as immediate data is handed on.
  [[nodiscard]] std::uint32_t raw() const { return std::bit_cast<std::uint32_t>(bytes); }
  void set_raw(std::uint32_t value) { bytes = std::bit_cast<decltype(bytes)>(value); }
};

struct Be64 {
  std::array<std::byte, 8> bytes;
  [[nodiscard]] std::uint64_t load() const {
    return __builtin_bswap64(std::bit_cast<std::uint64_t>(bytes));
  }
  void store(std::uint64_t value) {
    bytes = std::bit_cast<decltype(bytes)>(__builtin_bswap64(value));
  }
};

static_assert(std::endian::native == std::endian::little);

// A header at `bytes`. REQUIRES: sizeof(Header) bytes are there.
template <typename Header>
[[nodiscard]] const Header& view(const std::byte* bytes) {
  static_assert(alignof(Header) == 1);
  return *reinterpret_cast<const Header*>(bytes);
}
template <typename Header>
[[nodiscard]] Header& view(std::byte* bytes) {
  static_assert(alignof(Header) == 1);
  return *reinterpret_cast<Header*>(bytes);
}

struct Ethernet {
  std::array<std::byte, 6> destination;
  std::array<std::byte, 6> source;
  Be16 type;  // kEtherTypeVlan: a Vlan follows
};
static_assert(sizeof(Ethernet) == 14);

// IEEE 802.1Q: priority 3 bits, drop eligible 1, identifier 12; then the type of what follows.
struct Vlan {
  Be16 tag;
  Be16 type;
};
static_assert(sizeof(Vlan) == 4);

//  0                   1                   2                   3
//  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
// +-------+-------+---------------+-------------------------------+
// |Version|  IHL  | Type of Serv. |         Total Length          |
// +-------+-------+---------------+-----+-------------------------+
// |        Identification         |Flags|     Fragment Offset     |
// +---------------+---------------+-----+-------------------------+
// | Time to Live  |   Protocol    |        Header Checksum        |
// +---------------+---------------+-------------------------------+
// |                        Source Address                         |
// |                     Destination Address                       |
// +---------------------------------------------------------------+
struct Ipv4 {
  Be8 version_ihl;
  Be8 tos;
  Be16 total_length;
  Be16 identification;
  Be16 fragment;  // kDontFragment, kMoreFragments, 13 bits of offset
  Be8 ttl;
  Be8 protocol;
  Be16 checksum;
  std::array<std::uint8_t, 4> source;
  std::array<std::uint8_t, 4> destination;
};
static_assert(sizeof(Ipv4) == 20);
static_assert(offsetof(Ipv4, checksum) == 10);
inline constexpr std::uint16_t kDontFragment = 0x4000;
inline constexpr std::uint16_t kFragmentMask = 0x3FFF;  // more fragments, and the offset

// +-------+---------------+---------------------------------------+
// |Version| Traffic Class |              Flow Label               |
// +-------+---------------+-------+---------------+---------------+
// |        Payload Length         |  Next Header  |   Hop Limit   |
// +-------------------------------+---------------+---------------+
// |                 Source Address (16 bytes)                     |
// |               Destination Address (16 bytes)                  |
// +---------------------------------------------------------------+
struct Ipv6 {
  Be32 version_class_flow;
  Be16 payload_length;
  Be8 next_header;
  Be8 hop_limit;
  std::array<std::uint8_t, 16> source;
  std::array<std::uint8_t, 16> destination;
};
static_assert(sizeof(Ipv6) == 40);

struct Udp {
  Be16 source_port;
  Be16 destination_port;
  Be16 length;  // of this header and what follows
  Be16 checksum;
};
static_assert(sizeof(Udp) == 8);

// IBTA vol. 1, 9.2
// +---------------+-+-+---+-------+-------------------------------+
// |    OpCode     |S|M|Pad| TVer  |        Partition Key          |
// +-+-+-----------+-+-+---+-------+-------------------------------+
// |F|B| Reserved  |         Destination Queue Pair                |
// +-+-+-----------+-----------------------------------------------+
// |A|  Reserved   |         Packet Sequence Number                |
// +-+-------------+-----------------------------------------------+
struct Bth {
  Be8 opcode;
  Be8 flags;  // solicited event, MigReq, pad count, transport version
  Be16 pkey;
  Be32 ecn_qpn;
  Be32 ack_psn;
};
static_assert(sizeof(Bth) == 12);
inline constexpr std::uint8_t kSolicited = 0x80;
inline constexpr std::uint8_t kMigReq = 0x40;
inline constexpr std::uint8_t kPadShift = 4;
inline constexpr std::uint8_t kPadMask = 0x03;
inline constexpr std::uint8_t kVersionMask = 0x0F;
inline constexpr std::uint32_t kFecn = 0x8000'0000;
inline constexpr std::uint32_t kBecn = 0x4000'0000;
inline constexpr std::uint32_t kAckRequest = 0x8000'0000;
inline constexpr std::uint32_t kLow24 = 0x00FF'FFFF;

// IBTA vol. 1, 9.3: the extended transport headers.
struct RethLayout {
  Be64 address;
  Be32 rkey;
  Be32 length;
};
static_assert(sizeof(RethLayout) == 16);

struct AethLayout {
  Be32 syndrome_msn;  // 8 and 24 bits
};
static_assert(sizeof(AethLayout) == 4);

struct AtomicEthLayout {
  Be64 address;
  Be32 rkey;
  Be64 swap_add;
  Be64 compare;
};
static_assert(sizeof(AtomicEthLayout) == 28);
static_assert(offsetof(AtomicEthLayout, swap_add) == 12);

struct DethLayout {
  Be32 qkey;
  Be32 source_qpn;  // 8 reserved bits, then 24
};
static_assert(sizeof(DethLayout) == 8);

// Annex A19: reserved bits, then selectivity in bits 5:4 and placement in bits 3:0.
struct FethLayout {
  Be32 bits;
};
static_assert(sizeof(FethLayout) == 4);
inline constexpr std::uint32_t kSelectivityShift = 4;
inline constexpr std::uint32_t kSelectivityMask = 0x3;
inline constexpr std::uint32_t kPlacementMask = 0xF;

}  // namespace uroce::layout
