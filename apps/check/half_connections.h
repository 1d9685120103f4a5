#pragma once

// The half-connections of a capture: everything that goes from one address to one queue pair of
// another. The first pass finds them, the path MTU of each, and which two form a connection, since
// a packet doesn't say from which queue pair it comes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dataplane/wire/address.h"
#include "dataplane/wire/packet.h"

namespace uroce::check {

struct HalfConnectionKey {
  Gid from, to;
  std::uint32_t qpn = 0;  // of the receiver
  bool operator==(const HalfConnectionKey&) const = default;
};

struct HalfConnection {
  HalfConnectionKey key;
  Transport transport = Transport::kRc;
  std::uint32_t mtu = 0;  // learned; 0: no packet told
  std::optional<std::size_t> partner;

  // Only used during the first pass.
  std::uint16_t udp_port = 0;
  std::uint32_t payload_max = 0;
  bool asked = false;
  std::uint32_t asked_psn = 0;  // last

  [[nodiscard]] bool reliable() const {
    return transport == Transport::kRc || transport == Transport::kXrc;
  }
};

class HalfConnections {
 public:
  static constexpr std::size_t kMax = 16'384;
  // Half-connections between two addresses with which one answer is compared.
  static constexpr std::size_t kComparedMax = 256;

  // The next packet of the capture, in the first pass.
  void survey(const Packet& packet);
  // After the last one.
  void settle();

  [[nodiscard]] const std::vector<HalfConnection>& all() const { return halves_; }
  [[nodiscard]] std::optional<std::size_t> find(const Packet& packet) const;
  // Packets of half-connections beyond the limit.
  [[nodiscard]] std::uint64_t beyond() const { return beyond_; }

 private:
  struct Hash {
    std::size_t operator()(const HalfConnectionKey& key) const;
  };
  struct Ends {
    Gid from, to;
    bool operator==(const Ends&) const = default;
  };
  struct EndsHash {
    std::size_t operator()(const Ends& ends) const;
  };

  void find_partner(std::size_t answering, const Packet& packet);

  std::vector<HalfConnection> halves_;
  std::unordered_map<HalfConnectionKey, std::size_t, Hash> places_;
  std::unordered_map<Ends, std::vector<std::size_t>, EndsHash> between_;
  std::uint64_t beyond_ = 0;
};

}  // namespace uroce::check
