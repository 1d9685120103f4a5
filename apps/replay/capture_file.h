#pragma once

// Capture files: the packets of a pcap or pcapng file.

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace uroce::replay {

// What a file may hold; more is refused.
inline constexpr std::size_t kCaptureFramesMax = 4'000'000;
inline constexpr std::size_t kCaptureBytesMax = std::size_t{1} << 31U;

struct CapturedFrame {
  Time time = 0;  // nanoseconds since 1970
  std::vector<std::byte> bytes;
};

// Ethernet frames as they lie in the file. What isn't a capture, is of another link type, is cut
// off in the middle or is too large is refused with a sentence that names the file.
[[nodiscard]] Result<std::vector<CapturedFrame>> read_capture(const std::filesystem::path& file);

[[nodiscard]] Status write_capture(const std::filesystem::path& file,
                                   std::span<const CapturedFrame> frames);

}  // namespace uroce::replay
