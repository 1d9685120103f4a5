#pragma once

// The location of the captures of a real peer, and capture files (apps/replay/capture_file.h) in
// the form that tests need.

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"

namespace uroce::test {

// $UROCE_SHARED/captures, or captures in the folder `shared` next to the source tree. An error
// names the places searched.
[[nodiscard]] Result<std::filesystem::path> captures_folder();

// The frames alone.
using CaptureFrames = std::vector<std::vector<std::byte>>;
[[nodiscard]] Result<CaptureFrames> read_capture(const std::filesystem::path& file);

// Ethernet frames, one per second.
[[nodiscard]] Status write_capture(const std::filesystem::path& file,
                                   std::span<const std::vector<std::byte>> frames);

}  // namespace uroce::test
