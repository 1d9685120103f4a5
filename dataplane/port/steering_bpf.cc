#include "dataplane/port/steering_bpf.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <cstddef>
#include <utility>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/limits.h"

namespace uroce {
namespace {

// Offsets in the headers of a packet.
constexpr std::uint32_t kIpv4FragmentWord = 6, kIpv4Protocol = 9, kIpv4Bytes = 20;
constexpr std::uint32_t kIpv6NextHeader = 6, kIpv6Bytes = 40;
constexpr std::uint32_t kUdpDestination = 2, kUdpBytes = 8;
constexpr std::uint32_t kBthQpn = 4;             // the word whose low 24 bits are the number
constexpr std::uint32_t kIpv4NoOptions = 0x45;   // the first byte: version 4, 20 bytes
constexpr std::uint32_t kIpv4Fragment = 0x3FFF;  // of its word: more follow, or not the first

// Writes a program sequentially. Jumps go forward, to the position at which land() is called.
class Writer {
 public:
  using Jump = std::size_t;  // the instruction's index

  void load(std::uint16_t size, std::uint32_t offset) {
    program_.push_back(BPF_STMT(static_cast<std::uint16_t>(BPF_LD | BPF_ABS | size), offset));
  }
  Jump unless_equal(std::uint32_t value) {
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0));
    return program_.size() - 1;
  }
  Jump unless_clear(std::uint32_t bits) {
    // An equality test on the masked bits, so that there is one kind of jump.
    program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
    return unless_equal(0);
  }
  void land(Jump jump) {
    program_[jump].jf = static_cast<std::uint8_t>(program_.size() - jump - 1);
  }
  void answer_owner(std::uint32_t qpn_offset, std::uint16_t workers) {
    load(BPF_W, qpn_offset);
    program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kQpnMask));
    program_.push_back(BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, workers));
    program_.push_back(BPF_STMT(BPF_RET | BPF_A, 0));
  }
  void answer(std::uint32_t worker) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, worker)); }

  std::vector<sock_filter> take() { return std::move(program_); }

 private:
  std::vector<sock_filter> program_;
};

// From the network header on, wherever the packet begins for the kernel at that moment.
constexpr std::uint32_t in_packet(std::uint32_t offset) {
  return static_cast<std::uint32_t>(SKF_NET_OFF) + offset;
}

}  // namespace

std::vector<sock_filter> datagram_steering_bpf(std::uint16_t workers) {
  Writer writer;
  writer.answer_owner(kBthQpn, workers);
  return writer.take();
}

// The kernel has removed a VLAN tag before it runs the program: the protocol is that of the inner
// packet.
std::vector<sock_filter> packet_steering_bpf(std::uint16_t workers) {
  Writer writer;
  std::vector<Writer::Jump> others;
  const auto expect = [&](std::uint16_t size, std::uint32_t offset, std::uint32_t value) {
    writer.load(size, in_packet(offset));
    others.push_back(writer.unless_equal(value));
  };
  writer.load(BPF_W, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PROTOCOL));
  const Writer::Jump not_ipv4 = writer.unless_equal(ETH_P_IP);
  expect(BPF_B, 0, kIpv4NoOptions);
  writer.load(BPF_H, in_packet(kIpv4FragmentWord));
  others.push_back(writer.unless_clear(kIpv4Fragment));
  expect(BPF_B, kIpv4Protocol, IPPROTO_UDP);
  expect(BPF_H, kIpv4Bytes + kUdpDestination, kRoceUdpPort);
  writer.answer_owner(in_packet(kIpv4Bytes + kUdpBytes + kBthQpn), workers);
  writer.land(not_ipv4);
  others.push_back(writer.unless_equal(ETH_P_IPV6));
  expect(BPF_B, kIpv6NextHeader, IPPROTO_UDP);
  expect(BPF_H, kIpv6Bytes + kUdpDestination, kRoceUdpPort);
  writer.answer_owner(in_packet(kIpv6Bytes + kUdpBytes + kBthQpn), workers);
  for (const Writer::Jump jump : others) {
    writer.land(jump);
  }
  writer.answer(0);
  return writer.take();
}

}  // namespace uroce
