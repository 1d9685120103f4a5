#pragma once

// Numbers that headers contain, and the extension headers as values in host order. How they lie on
// the wire: wire/layout.h.

#include <cstddef>
#include <cstdint>

namespace uroce {

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86DD;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint16_t kEtherTypeArp = 0x0806;
inline constexpr std::uint8_t kIpProtocolUdp = 17;
inline constexpr std::uint8_t kIpProtocolIcmp = 1;
inline constexpr std::uint8_t kIpProtocolIgmp = 2;
inline constexpr std::uint8_t kIpProtocolIcmpV6 = 58;
inline constexpr std::uint8_t kIpProtocolHopByHop = 0;  // options; behind them, for us, MLD

inline constexpr std::uint32_t kBthLength = 12;
inline constexpr std::uint32_t kIcrcLength = 4;
inline constexpr std::uint16_t kRoceUdpPort = 4791;

// Queue pairs with a meaning of their own: QP1 takes management datagrams (MADs), and multicast
// packets are for 0xFFFFFF (IBTA vol. 1, 3.5.10, 9.6.1.4, 13.4.2).
inline constexpr std::uint32_t kGsiQpn = 1;
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;
inline constexpr std::uint32_t kMadLength = 256;  // bytes
inline constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;

// RDMA extended transport header, 16 bytes.
struct Reth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
};

// Acknowledgement extended transport header, 4 bytes (IBTA vol. 1, 9.7.5.2).
struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  // 24 bits
};

// Syndromes: 000ccccc ACK with a credit code, 001ttttt RNR NAK with a timer code, 011nnnnn NAK. All
// other kinds are reserved.
inline constexpr std::uint8_t kSyndromeKindMask = 0xE0;
inline constexpr std::uint8_t kSyndromeValueMask = 0x1F;
inline constexpr std::uint8_t kSyndromeAckUnlimited = 0x1F;
inline constexpr std::uint8_t kSyndromeRnr = 0x20;
inline constexpr std::uint8_t kSyndromeNak = 0x60;
enum class [[nodiscard]] Nak : std::uint8_t{
    kPsnSequence = 0,       kInvalidRequest = 1,   kRemoteAccess = 2,
    kRemoteOperational = 3, kInvalidRdRequest = 4,
};

// Atomic extended transport header, 28 bytes.
struct AtomicEth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
};

// Datagram extended transport header, 8 bytes.
struct Deth {
  std::uint32_t qkey = 0;
  std::uint32_t source_qpn = 0;  // 24 bits
};

// Flush extended transport header, 4 bytes (annex A19).
struct Feth {
  static constexpr std::uint8_t kPlaceGlobal = 1U << 0U;      // global visibility
  static constexpr std::uint8_t kPlacePersistent = 1U << 1U;  // persistence
  static constexpr std::uint8_t kSelectRange = 0;             // the range of the RETH
  static constexpr std::uint8_t kSelectRegion = 1;            // the whole region

  std::uint8_t placement = 0;  // of these two bits
  std::uint8_t selectivity = 0;
};

}  // namespace uroce
