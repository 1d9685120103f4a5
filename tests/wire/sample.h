#pragma once

// Frames for tests of the wire format: seeded random paths, headers and payloads of every opcode;
// and the reverse: a parsed packet is read through Packet's accessors and built again.

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "dataplane/wire/path.h"

namespace uroce::test {

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

// A frame with memory of its own. Not copyable: the frame points into it.
struct OwnedFrame {
  Bytes buffer;
  Frame frame;

  explicit OwnedFrame(std::size_t capacity = 4608);
  // A received frame of exactly these bytes, so that a sanitizer detects a read beyond them.
  explicit OwnedFrame(std::span<const std::byte> bytes);
  OwnedFrame(const OwnedFrame&) = delete;
  OwnedFrame& operator=(const OwnedFrame&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {frame.data, frame.length}; }
};

// Every opcode of the table, in order.
[[nodiscard]] std::vector<Opcode> all_opcodes();

struct PathKind {
  bool ipv6 = false;
  bool vlan = false;
};
inline constexpr PathKind kPathKinds[] = {{.ipv6 = false, .vlan = false},
                                          {.ipv6 = false, .vlan = true},
                                          {.ipv6 = true, .vlan = false},
                                          {.ipv6 = true, .vlan = true}};
[[nodiscard]] Path random_path(Random& random, PathKind kind);
// All fields random, including those that the opcode doesn't have: building must omit them.
[[nodiscard]] Headers random_headers(Random& random, Opcode opcode);
[[nodiscard]] Bytes random_bytes(Random& random, std::size_t length);
// A length that a packet of this opcode can have, `wanted` if possible.
[[nodiscard]] std::uint32_t possible_payload(Opcode opcode, std::uint32_t wanted);

void build(OwnedFrame& out, const Path& path, const Headers& headers,
           std::span<const std::byte> payload, std::uint16_t ip_id);

// Builds a frame from nothing but what the accessors of a parsed one return (and the fields before
// the BTH that no role needs).
void rebuild(OwnedFrame& out, const Frame& parsed);

// Empty if both packets are equal, else the difference. Both are parsed.
[[nodiscard]] std::string difference(const Packet& a, const Packet& b);

}  // namespace uroce::test
