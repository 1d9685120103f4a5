// Micro benchmarks of dataplane/wire: parse, build and the CRC kernels by size.

#include <benchmark/benchmark.h>

#include <vector>

#include "dataplane/wire/build.h"
#include "dataplane/wire/crc/crc32.h"
#include "dataplane/wire/frame.h"

namespace uroce {
namespace {

constexpr std::uint32_t kCapacity = 4352;

// A frame with its own buffer, and a payload for it.
struct Bed {
  std::vector<std::byte> buffer = std::vector<std::byte>(kCapacity);
  std::vector<std::byte> source = std::vector<std::byte>(kCapacity, std::byte{0x5A});
  Frame frame;
  FrameTemplate frame_template;
  Headers headers;

  explicit Bed(Opcode opcode) {
    frame.data = buffer.data();
    frame.capacity = kCapacity;
    headers.opcode = opcode;
    headers.dest_qpn = 17;
    Path path;
    path.source_gid = *parse_ip("10.0.0.1");
    path.destination_gid = *parse_ip("10.0.0.2");
    frame_template = FrameTemplate(path);
  }

  void build(std::uint32_t length) {
    headers.psn = (headers.psn + 1) & 0xFFFFFF;
    FrameWriter writer(frame, frame_template, headers, length,
                       static_cast<std::uint16_t>(headers.psn));
    writer.append(source.data(), length);
    writer.finish();
  }
};

void build(benchmark::State& state, Opcode opcode) {
  Bed bed(opcode);
  for (auto _ : state) {
    bed.build(static_cast<std::uint32_t>(state.range(0)));
    benchmark::DoNotOptimize(bed.buffer.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(build, write, Opcode::kRcWriteOnly)
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Arg(4096);
BENCHMARK_CAPTURE(build, acknowledge, Opcode::kRcAcknowledge)->Arg(0);

void parse_with(benchmark::State& state, Opcode opcode, Drop (*parser)(Frame&)) {
  Bed bed(opcode);
  bed.build(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::ClobberMemory();
    if (parser(bed.frame) != Drop::kNone) {
      state.SkipWithError("dropped");
    }
    benchmark::DoNotOptimize(bed.frame.packet);
  }
}
BENCHMARK_CAPTURE(parse_with, headers_only, Opcode::kRcWriteOnly, parse_headers)->Arg(8);
BENCHMARK_CAPTURE(parse_with, acknowledge, Opcode::kRcAcknowledge, parse)->Arg(0);
BENCHMARK_CAPTURE(parse_with, write, Opcode::kRcWriteOnly, parse)
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Arg(4096);

void crc_update(benchmark::State& state, const Crc32Kernel* kernel) {
  const auto length = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> bytes(length, std::byte{0x5A});
  std::uint32_t sum = 0;
  for (auto _ : state) {
    sum = kernel->update(sum, bytes.data(), length);
  }
  benchmark::DoNotOptimize(sum);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void crc_copy(benchmark::State& state, const Crc32Kernel* kernel) {
  const auto length = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(length, std::byte{0x5A});
  std::vector<std::byte> to(length);
  std::uint32_t sum = 0;
  for (auto _ : state) {
    sum = kernel->copy(sum, to.data(), from.data(), length, 0);
  }
  benchmark::DoNotOptimize(sum);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

[[maybe_unused]] const bool kernels_registered = [] {
  for (const Crc32Kernel* kernel : crc32_kernels()) {
    const std::string name(kernel->name);
    for (const std::int64_t length : {8, 48, 64, 76, 256, 1024, 4096}) {
      benchmark::RegisterBenchmark(("update/" + name).c_str(), crc_update, kernel)->Arg(length);
      benchmark::RegisterBenchmark(("copy/" + name).c_str(), crc_copy, kernel)->Arg(length);
    }
  }
  return true;
}();

}  // namespace
}  // namespace uroce

BENCHMARK_MAIN();
