// `uroce check` reads captures from anywhere. One half of the inputs are files as they are; the
// other half are packets with a correct ICRC, or truncated by the capture, so that the analysis
// behind the parser is reached too: any opcodes, PSNs, lengths and times of a few connections.

#include <sys/mman.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "apps/check/analyser.h"
#include "apps/check/report.h"
#include "apps/replay/capture_file.h"
#include "base/check.h"
#include "dataplane/wire/ecn.h"
#include "tests/fuzz/byte_source.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kPacketsMax = 256, kQpns = 3, kPayloadMax = 4'200;
constexpr std::size_t kFrameMax = 8'192;

// A file in memory, the same one for all inputs.
const std::string& place() {
  static const int descriptor = ::memfd_create("uroce-check", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return path;
}

void write_raw(std::span<const std::uint8_t> bytes) {
  std::FILE* const file = std::fopen(place().c_str(), "wb");
  UROCE_CHECK(file != nullptr);
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

// Times and PSNs mostly advance as in a real connection.
class Packets {
 public:
  void step(ByteSource& source) {
    const bool back = source.flag();
    Path path;
    path.source_gid = *parse_ip(back ? "10.0.0.2" : "10.0.0.1");
    path.destination_gid = *parse_ip(back ? "10.0.0.1" : "10.0.0.2");
    path.tos = with_ecn(0, source.below(16) == 0 ? Ecn::kCongested : Ecn::kCapable0);
    Headers headers;
    headers.opcode = static_cast<Opcode>(source.take<std::uint8_t>());
    if (opcode_info(headers.opcode).name.empty()) {
      return;  // no such packet can be built
    }
    headers.dest_qpn = 0x10 + (back ? 0x10 : 0) + source.below(kQpns);
    headers.psn = psn(source);
    headers.ack_request = source.flag();
    headers.becn = source.below(16) == 0;
    headers.aeth = {.syndrome = source.take<std::uint8_t>(), .msn = source.below(8)};
    headers.reth = {.address = source.below(4) * 4'096ULL,
                    .rkey = 1,
                    .length = source.flag() ? source.below(20'000) : source.take<std::uint32_t>()};
    const std::uint32_t payload = possible_payload(headers.opcode, source.below(kPayloadMax));
    OwnedFrame out(kFrameMax);
    build(out, path, headers, Bytes(payload), 1);
    const auto bytes = out.bytes();
    now_ += source.flag() ? source.take<std::uint32_t>() : 10 * kNanosecondsPerMicrosecond;
    frames_.push_back({.time = now_, .bytes = {bytes.begin(), bytes.end()}});
  }

  [[nodiscard]] std::size_t count() const { return frames_.size(); }
  void write() const { UROCE_CHECK(replay::write_capture(place(), frames_).has_value()); }

 private:
  std::uint32_t psn(ByteSource& source) {
    switch (source.below(4)) {
      case 0:
        return psn_ = source.take<std::uint32_t>() & 0xFF'FFFF;
      case 1:
        return (psn_ - source.below(8)) & 0xFF'FFFF;
      default:
        return psn_ = (psn_ + source.below(4)) & 0xFF'FFFF;
    }
  }

  std::vector<replay::CapturedFrame> frames_;
  Time now_ = kNanosecondsPerSecond;
  std::uint32_t psn_ = 0xFF'FFF0;
};

void analyse_and_print() {
  check::Verdict verdict;
  if (!check::analyse(place(), {}, verdict)) {
    return;
  }
  UROCE_CHECK(verdict.roce <= verdict.frames && verdict.cut_short <= verdict.frames);
  std::ostringstream out;
  check::print_report(verdict, out);
  check::print_json(verdict, out);
  UROCE_CHECK(!out.str().empty());
}

}  // namespace
}  // namespace uroce::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::test;
  ByteSource source(data, size);
  if (source.flag()) {
    write_raw(source.bytes(size));
  } else {
    Packets packets;
    while (!source.empty() && packets.count() < kPacketsMax) {
      packets.step(source);
    }
    packets.write();
  }
  analyse_and_print();
  return 0;
}
