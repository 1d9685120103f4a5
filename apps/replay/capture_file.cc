// Reading and writing capture files with libpcap.

#include "apps/replay/capture_file.h"

#include <pcap/pcap.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

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

std::string link_type_name(int type) {
  const char* const name = pcap_datalink_val_to_name(type);
  return name != nullptr ? name : std::to_string(type);
}

}  // namespace

Result<std::vector<CapturedFrame>> read_capture(const std::filesystem::path& file) {
  std::array<char, PCAP_ERRBUF_SIZE> reason{};
  const std::unique_ptr<pcap_t, Close> handle(pcap_open_offline_with_tstamp_precision(
      file.c_str(), PCAP_TSTAMP_PRECISION_NANO, reason.data()));
  if (handle == nullptr) {
    const std::string why(reason.data());
    return why.starts_with(file.string()) ? Error{EINVAL, why} : refuse(file, why);
  }
  if (const int type = pcap_datalink(handle.get()); type != DLT_EN10MB) {
    return refuse(file, "not a capture of Ethernet frames, but of " + link_type_name(type));
  }
  std::vector<CapturedFrame> frames;
  std::size_t bytes_total = 0;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int outcome = 0;
  while ((outcome = pcap_next_ex(handle.get(), &header, &data)) == 1) {
    bytes_total += header->caplen;
    if (frames.size() == kCaptureFramesMax || bytes_total > kCaptureBytesMax) {
      return refuse(file, "more than " + std::to_string(kCaptureFramesMax) + " frames or " +
                              std::to_string(kCaptureBytesMax) + " bytes; take a part of it");
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    frames.push_back({.time = static_cast<Time>(header->ts.tv_sec) * kNanosecondsPerSecond +
                              static_cast<Time>(header->ts.tv_usec),
                      .bytes = {bytes, bytes + header->caplen}});
  }
  if (outcome != PCAP_ERROR_BREAK) {
    return refuse(file,
                  "frame " + std::to_string(frames.size() + 1) + ": " + pcap_geterr(handle.get()));
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
