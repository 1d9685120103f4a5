// Writes packets of every opcode, as the daemon would send them, into a capture file, and their
// fields into a table next to it; then runs wire_peers.py in its place, which checks that tshark
// and scapy read the same fields.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "dataplane/wire/packet.h"
#include "tests/wire/capture_file.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kPayloads[] = {0, 1, 2, 3, 4, 5, 8, 63, 64, 255, 256, 1024, 4096};

// One packet's row: what an independent dissector must find in it. Empty: no such field.
std::string row_of(const Packet& packet, std::uint32_t payload_length) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  std::string row = std::to_string(static_cast<unsigned>(packet.opcode));
  const auto add = [&row](bool present, std::uint64_t value) {
    row += '\t';
    row += present ? std::to_string(value) : "";
  };
  row += '\t';
  row += info.name;
  add(true, packet.ip_version);
  add(true, payload_length);
  add(true, packet.pkey);
  add(true, packet.dest_qpn);
  add(true, packet.psn);
  add(true, packet.solicited ? 1 : 0);
  add(true, packet.migrated ? 1 : 0);
  add(true, packet.ack_request ? 1 : 0);
  using enum Extension;
  const bool reth = info.has(kReth);
  const bool atomic = info.has(kAtomicEth);
  const AtomicEth atomic_eth = atomic ? packet.atomic_eth() : AtomicEth{};
  const Reth target = reth ? packet.reth() : Reth{atomic_eth.address, atomic_eth.rkey, 0};
  add(reth || atomic, target.address);
  add(reth || atomic, target.rkey);
  add(reth, target.length);
  const bool aeth = info.has(kAeth);
  add(aeth, aeth ? packet.aeth().syndrome : 0);
  add(aeth, aeth ? packet.aeth().msn : 0);
  const bool deth = info.has(kDeth);
  add(deth, deth ? packet.deth().qkey : 0);
  add(deth, deth ? packet.deth().source_qpn : 0);
  add(atomic, atomic_eth.swap_add);
  add(atomic, atomic_eth.compare);
  add(info.has(kAtomicAckEth), info.has(kAtomicAckEth) ? packet.atomic_ack() : 0);
  add(info.has(kImmediate), info.has(kImmediate) ? __builtin_bswap32(packet.immediate()) : 0);
  add(info.has(kIeth), info.has(kIeth) ? packet.invalidate_rkey() : 0);
  return row;
}

struct Written {
  CaptureFrames frames;
  std::string rows;
};

void write_one(Written& written, Random& random, Opcode opcode, PathKind kind,
               std::uint32_t payload_length) {
  Headers headers = random_headers(random, opcode);
  headers.dest_qpn |= 0x100U;  // not QP1: its payload would be dissected as a management datagram
  headers.deth.source_qpn |= 0x100U;
  const bool is_cnp = opcode_info(opcode).operation == Operation::kCnp;
  Bytes payload = is_cnp ? Bytes(payload_length) : random_bytes(random, payload_length);
  if (!is_cnp && payload_length > 0) {
    payload[0] = std::byte{0xA5};  // tshark would take a known EtherType for an encapsulated frame
  }
  OwnedFrame owned;
  build(owned, random_path(random, kind), headers, payload, static_cast<std::uint16_t>(random()));
  if (parse(owned.frame) != Drop::kNone) {
    std::fprintf(stderr, "our own parse() drops a packet that we built\n");
    std::exit(1);
  }
  written.frames.emplace_back(owned.bytes().begin(), owned.bytes().end());
  written.rows += row_of(owned.frame.packet, payload_length);
  written.rows += '\n';
}

Written write_all() {
  Random random{4791};
  Written written;
  for (const Opcode opcode : all_opcodes()) {
    std::uint32_t before = 0xFFFF'FFFF;
    for (const std::uint32_t wanted : kPayloads) {
      const std::uint32_t length = possible_payload(opcode, wanted);
      // tshark 4.0 calls any UD SEND without payload malformed.
      const bool is_datagram = opcode_info(opcode).transport == Transport::kUd;
      if (length == before || (is_datagram && length == 0)) {
        continue;
      }
      before = length;
      for (const bool ipv6 : {false, true}) {
        for (const bool vlan : {false, true}) {
          write_one(written, random, opcode, {.ipv6 = ipv6, .vlan = vlan}, length);
        }
      }
    }
  }
  return written;
}

int run() {
  std::string folder = (std::filesystem::temp_directory_path() / "wire_peers.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  const Written written = write_all();
  const Status status = write_capture(folder + "/packets.pcap", written.frames);
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 1;
  }
  std::ofstream(folder + "/packets.tsv") << written.rows;
  execl("/usr/bin/python3", "python3", WIRE_PEERS_SCRIPT, folder.c_str(), nullptr);
  std::perror("/usr/bin/python3");
  return 1;
}

}  // namespace
}  // namespace uroce::test

int main() { return uroce::test::run(); }
