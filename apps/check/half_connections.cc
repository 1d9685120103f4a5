#include "apps/check/half_connections.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "dataplane/wire/path_mtu.h"
#include "dataplane/wire/psn.h"

namespace uroce::check {
namespace {

constexpr std::uint32_t kMtuUnknown = 1'024;
// An answer's PSN is no further from what was asked last.
constexpr std::uint32_t kNear = 1U << 16U;

std::string_view bytes_of(const Gid& gid) {
  return {reinterpret_cast<const char*>(gid.bytes.data()), gid.bytes.size()};
}

// Only full packets tell the path MTU.
void learn_mtu(HalfConnection& half, const Packet& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const std::uint32_t length = packet.payload_length;
  if (info.payload && !info.last && is_path_mtu(length)) {
    half.mtu = std::max(half.mtu, length);
  }
  half.payload_max = std::max(half.payload_max, length);
}

std::uint32_t smallest_mtu_for(std::uint32_t payload) {
  std::uint32_t mtu = kMtuUnknown;
  while (mtu < payload && mtu < kPathMtuMax) {
    mtu *= 2;
  }
  return mtu;
}

}  // namespace

std::size_t HalfConnections::Hash::operator()(const HalfConnectionKey& key) const {
  const std::hash<std::string_view> hash;
  return (hash(bytes_of(key.from)) * 31 + hash(bytes_of(key.to))) * 31 + key.qpn;
}

std::size_t HalfConnections::EndsHash::operator()(const Ends& ends) const {
  const std::hash<std::string_view> hash;
  return hash(bytes_of(ends.from)) * 31 + hash(bytes_of(ends.to));
}

std::optional<std::size_t> HalfConnections::find(const Packet& packet) const {
  const auto place = places_.find({packet.source_gid(), packet.destination_gid(), packet.dest_qpn});
  return place == places_.end() ? std::nullopt : std::optional(place->second);
}

void HalfConnections::survey(const Packet& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  if (outside_sequence(info.operation)) {
    return;  // comes after others, or is counted without a half
  }
  const HalfConnectionKey key{packet.source_gid(), packet.destination_gid(), packet.dest_qpn};
  auto place = places_.find(key);
  if (place == places_.end()) {
    if (halves_.size() == kMax) {
      ++beyond_;
      return;
    }
    place = places_.emplace(key, halves_.size()).first;
    between_[{key.from, key.to}].push_back(halves_.size());
    halves_.push_back({.key = key,
                       .transport = info.transport,
                       .partner = std::nullopt,
                       .udp_port = packet.udp_source_port()});
  }
  HalfConnection& half = halves_[place->second];
  learn_mtu(half, packet);
  if (info.request) {
    half.asked = true;
    half.asked_psn = packet.psn;
  } else if (!half.partner) {
    find_partner(place->second, packet);
  }
}

// Which half asked for this? That whose UDP source port is the same, as cards choose it for both
// ends; then that which last asked for something near this PSN.
void HalfConnections::find_partner(std::size_t answering, const Packet& packet) {
  const HalfConnection& half = halves_[answering];
  const auto candidates = between_.find({half.key.to, half.key.from});
  if (candidates == between_.end()) {
    return;
  }
  std::optional<std::size_t> best;
  std::tuple<bool, bool, std::uint32_t> best_rank;
  std::size_t compared = 0;
  for (auto other = candidates->second.rbegin();
       other != candidates->second.rend() && compared < kComparedMax; ++other) {
    const HalfConnection& asking = halves_[*other];
    if (!asking.asked || asking.partner || asking.transport != half.transport) {
      continue;
    }
    ++compared;
    const auto off =
        static_cast<std::uint32_t>(std::abs(psn_difference(packet.psn, asking.asked_psn)));
    const bool same_port = asking.udp_port == half.udp_port;
    const std::tuple rank(off < kNear, same_port, kPsnMask - off);
    if ((off < kNear || same_port) && (!best || rank > best_rank)) {
      best = *other;
      best_rank = rank;
    }
  }
  if (best) {
    halves_[*best].partner = answering;
    halves_[answering].partner = best;
  }
}

void HalfConnections::settle() {
  for (std::size_t i = 0; i < halves_.size(); ++i) {
    HalfConnection& half = halves_[i];
    HalfConnection& other = half.partner ? halves_[*half.partner] : half;
    std::uint32_t mtu = std::max(half.mtu, other.mtu);
    if (mtu == 0) {
      mtu = smallest_mtu_for(std::max(half.payload_max, other.payload_max));
    }
    half.mtu = other.mtu = mtu;
  }
}

}  // namespace uroce::check
