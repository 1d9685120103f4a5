// Reading and writing capture files with libpcap.

#include "apps/replay/capture_file.h"

#include <pcap/pcap.h>

#include <cerrno>
#include <memory>
#include <string>

#include "apps/replay/capture_reader.h"

namespace uroce::replay {
namespace {

constexpr int kSnapLength = 262'144;

struct Close {
  void operator()(pcap_t* handle) const { pcap_close(handle); }
  void operator()(pcap_dumper_t* dumper) const { pcap_dump_close(dumper); }
};

Error refuse(const std::filesystem::path& file, const std::string& why) {
  return {EINVAL, file.string() + ": " + why};
}

}  // namespace

Result<std::vector<CapturedFrame>> read_capture(const std::filesystem::path& file) {
  auto reader = CaptureReader::open(file);
  if (!reader) {
    return reader.error();
  }
  std::vector<CapturedFrame> frames;
  std::size_t bytes_total = 0;
  while (const auto captured = reader->next()) {
    const auto bytes = captured->bytes.first(captured->present);
    bytes_total += bytes.size();
    if (frames.size() == kCaptureFramesMax || bytes_total > kCaptureBytesMax) {
      return refuse(file, "more than " + std::to_string(kCaptureFramesMax) + " frames or " +
                              std::to_string(kCaptureBytesMax) + " bytes; take a part of it");
    }
    frames.push_back({.time = captured->time, .bytes = {bytes.begin(), bytes.end()}});
  }
  if (!reader->damage().empty()) {
    return refuse(file, "frame " + std::to_string(frames.size() + 1) + ": " + reader->damage());
  }
  return frames;
}

Status write_capture(const std::filesystem::path& file, std::span<const CapturedFrame> frames) {
  const std::unique_ptr<pcap_t, Close> handle(
      pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapLength, PCAP_TSTAMP_PRECISION_NANO));
  const std::unique_ptr<pcap_dumper_t, Close> dumper(pcap_dump_open(handle.get(), file.c_str()));
  if (dumper == nullptr) {
    return refuse(file, pcap_geterr(handle.get()));
  }
  for (const CapturedFrame& frame : frames) {
    pcap_pkthdr header{};
    header.ts.tv_sec = static_cast<time_t>(frame.time / kNanosecondsPerSecond);
    header.ts.tv_usec = static_cast<suseconds_t>(frame.time % kNanosecondsPerSecond);
    header.caplen = header.len = static_cast<bpf_u_int32>(frame.bytes.size());
    pcap_dump(reinterpret_cast<u_char*>(dumper.get()), &header,
              reinterpret_cast<const u_char*>(frame.bytes.data()));
  }
  return pcap_dump_flush(dumper.get()) == 0 ? ok() : Status(refuse(file, "can't be written"));
}

}  // namespace uroce::replay
