#pragma once

// A capture, frame after frame, in memory that doesn't grow with it.

#include <pcap/pcap.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace uroce::replay {

class CaptureReader {
 public:
  // Of one frame; a longer one isn't looked at.
  static constexpr std::size_t kFrameBytesMax = 65'536;

  struct Captured {
    std::span<std::byte> bytes;  // as long as the frame was; what the capture cut off is 0
    std::size_t present = 0;     // bytes that the capture has
    Time time = 0;               // nanoseconds since 1970
  };

  // What isn't a capture of Ethernet frames is refused with a sentence that names the file.
  [[nodiscard]] static Result<CaptureReader> open(const std::filesystem::path& file);

  // Nothing: at its end, or at damage. `bytes` are valid until the next call.
  [[nodiscard]] std::optional<Captured> next();

  // Why it ended before its end; empty: it didn't.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  struct Close {
    void operator()(pcap_t* handle) const { pcap_close(handle); }
  };
  explicit CaptureReader(pcap_t* handle) : handle_(handle), buffer_(kFrameBytesMax) {}

  std::unique_ptr<pcap_t, Close> handle_;
  std::vector<std::byte> buffer_;
  std::string damage_;
};

}  // namespace uroce::replay
