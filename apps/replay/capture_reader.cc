#include "apps/replay/capture_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::replay {

Result<CaptureReader> CaptureReader::open(const std::filesystem::path& file) {
  std::array<char, PCAP_ERRBUF_SIZE> reason{};
  pcap_t* const handle = pcap_open_offline_with_tstamp_precision(
      file.c_str(), PCAP_TSTAMP_PRECISION_NANO, reason.data());
  if (handle == nullptr) {
    const std::string why(reason.data());
    return Error{EINVAL, why.starts_with(file.string()) ? why : file.string() + ": " + why};
  }
  CaptureReader reader(handle);
  if (const int type = pcap_datalink(handle); type != DLT_EN10MB) {
    const char* const name = pcap_datalink_val_to_name(type);
    return Error{EINVAL, file.string() + ": not a capture of Ethernet frames, but of " +
                             (name != nullptr ? name : std::to_string(type))};
  }
  return reader;
}

std::optional<CaptureReader::Captured> CaptureReader::next() {
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int outcome = pcap_next_ex(handle_.get(), &header, &data);
  if (outcome != 1) {
    damage_ = outcome == PCAP_ERROR_BREAK ? "" : pcap_geterr(handle_.get());
    return std::nullopt;
  }
  const std::size_t present = std::min<std::size_t>(header->caplen, buffer_.size());
  const std::size_t length = std::clamp<std::size_t>(header->len, present, buffer_.size());
  std::memcpy(buffer_.data(), data, present);
  std::memset(buffer_.data() + present, 0, length - present);
  // Hostile files have times of any size; whatever comes out, it is only compared and printed.
  const Time time = static_cast<Time>(header->ts.tv_sec) * kNanosecondsPerSecond +
                    static_cast<Time>(header->ts.tv_usec);
  return Captured{.bytes = {buffer_.data(), length}, .present = present, .time = time};
}

}  // namespace uroce::replay
