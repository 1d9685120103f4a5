#pragma once

// RoCEv2 packets as UDP sockets see them: addresses and a payload, the headers in front being the
// kernel's. A frame is taken apart to be sent and put together when one was received, so that
// everybody else goes on seeing frames.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/wire/address.h"
#include "dataplane/wire/frame.h"

namespace uroce {

// What one system call says about all datagrams that it carries.
struct DatagramPath {
  Gid source, destination;  // both IPv4-mapped, or neither
  std::uint8_t tos = 0;     // DSCP and ECN
  std::uint8_t hop_limit = 64;
  auto operator<=>(const DatagramPath&) const = default;
};

// A frame that is to be sent: where to, and what comes behind its UDP header.
struct Datagram {
  DatagramPath path;
  std::span<std::byte> payload;  // base transport header to ICRC
};

// Nothing: the frame is no RoCEv2 packet, or has not even the bytes of one.
[[nodiscard]] std::optional<Datagram> datagram_of(Frame& frame);

// What comes behind the UDP header of a frame whose headers say the same path as those of `other`,
// which has a datagram; empty: they don't, or it is no packet. Much quicker than datagram_of().
[[nodiscard]] std::span<std::byte> payload_on_same_path(Frame& frame, const Frame& other);

// What small identifications do to the ICRC, by how far the identification stands from the end: the
// packets of a message have few lengths.
class IdChanges {
 public:
  // icrc_change(), which says what is required.
  [[nodiscard]] std::uint32_t of(std::uint16_t change, std::size_t distance);

 private:
  static constexpr std::uint16_t kChanges = 64;  // of the segments of one call
  struct Table {
    std::size_t distance = 0;  // none has that
    std::array<std::uint32_t, kChanges> changes;

    void fill(std::size_t to);
  };

  // A call's datagrams have one length, but for a shorter last one.
  std::array<Table, 2> tables_{};
  std::size_t latest_ = 0;
};

// The kernel writes the IP identification and the UDP source port itself. Puts what it will write
// into the headers, and into the ICRC, which covers them; an ICRC that was wrong stays wrong. May
// be called again. REQUIRES: datagram_of() gave the datagram.
void set_kernel_fields(Frame& frame, const Datagram& datagram, std::uint16_t source_port,
                       std::uint16_t ip_id, IdChanges& changes);

// Bytes that build_frame() writes in front of the payload.
constexpr std::uint32_t datagram_headers(bool ipv4) { return ipv4 ? 42 : 62; }

enum class [[nodiscard]] IpId : std::uint8_t{
    kZero,     // or IPv6, which has none
    kSolved,   // another one, which follows from the ICRC
    kUnknown,  // none makes the ICRC right
};

// What stands in front of the payload of datagrams that came the same way: made once for all that
// one system call gave. Ethernet addresses are those of stand_in_mac().
class DatagramHeaders {
 public:
  DatagramHeaders(const DatagramPath& path, std::uint16_t source_port);

  [[nodiscard]] bool ipv6() const { return ipv6_; }
  // In front of a payload of so many bytes. IPv6 has no identification.
  void write(std::byte* at, std::size_t payload_length, std::uint16_t ip_id) const;

 private:
  alignas(16) std::array<std::byte, 64> bytes_{};
  bool ipv6_;
  std::uint32_t ipv4_sum_;  // of the words of an IPv4 header without length and identification
};

// Makes the frame that `payload` came in. A socket doesn't show the IPv4 identification, so it is
// the one with which the ICRC is right, first of all the one that is expected: `ip_id` has that,
// and has what it was afterwards. With kUnknown the frame is left with a wrong ICRC, which its
// receiver finds. Sets frame.icrc_checked otherwise. REQUIRES: frame.capacity holds the headers and
// the payload.
IpId build_frame(Frame& frame, const DatagramHeaders& headers, std::span<const std::byte> payload,
                 std::uint16_t* ip_id);

}  // namespace uroce
