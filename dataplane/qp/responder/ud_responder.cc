// Datagrams (IBTA vol. 1, 9.8.3): each is a message of one packet from anywhere. Datagrams that
// aren't for this queue pair, or find no receive, are dropped and counted; nobody is notified.

#include <array>
#include <cstring>
#include <utility>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/limits.h"

namespace uroce {
namespace {

constexpr std::uint32_t kIpv4HeaderLength = 20;

// In front of each datagram: the IPv6 header, or 20 undefined bytes and the IPv4 header (annex
// A17.4.5.2).
std::array<std::byte, kGrhBytes> grh_of(const Packet& packet) {
  std::array<std::byte, kGrhBytes> grh{};
  if (packet.ip_version == 4) {
    std::memcpy(&grh[kGrhBytes - kIpv4HeaderLength], packet.ip, kIpv4HeaderLength);
  } else {
    std::memcpy(grh.data(), packet.ip, kGrhBytes);
  }
  return grh;
}

}  // namespace

Step Responder::receive_datagram(const Packet& packet, Turn& turn, Drop* drop) {
  if (packet.deth().qkey != qp_->attributes_.qkey) {
    *drop = Drop::kBadQkey;  // 9.6.1.4.1
  } else if (packet.payload_length > qp_->attributes_.path_mtu) {
    *drop = Drop::kTooLong;
  }
  if (*drop != Drop::kNone) {
    forget_stores();  // it may have been parked, and the attributes changed since
    return Step::kDone;
  }
  bool held = false;
  Step step = hold_receive(turn, &held);
  if (held) {
    step = deliver_datagram(packet, turn);
  }
  *drop = std::exchange(abandoned_, Drop::kNone);
  return answer_nothing(step);
}

// REQUIRES: holding_
Step Responder::deliver_datagram(const Packet& packet, Turn& turn) {
  if (packet.payload_length + std::uint64_t{kGrhBytes} > receive_length_) {
    return abandon(Drop::kReceiveTooShort, turn);
  }
  const std::span sges(receive_.sges.data(), receive_.sge_count);
  const std::array grh = grh_of(packet);
  Access access = scatter(memory(turn), sges, 0, grh.data(), kGrhBytes, true);
  if (access == Access::kGranted) {
    access = scatter(memory(turn), sges, kGrhBytes, packet.payload, packet.payload_length);
  }
  if (access != Access::kGranted) {
    return refuse_local(access, turn);
  }
  offset_ = kGrhBytes + packet.payload_length;
  qp_->counters_.bytes_received += packet.payload_length;
  complete_receive(Request(packet), turn);
  return Step::kDone;
}

}  // namespace uroce
