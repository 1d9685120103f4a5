#pragma once

// Where the captures of a real peer lie, and capture files (apps/replay/capture_file.h) as tests
// want them.

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"

namespace uroce::test {

// $UROCE_SHARED/captures, or captures of the folder `shared` next to the source tree. An error says
// where it was looked for.
[[nodiscard]] Result<std::filesystem::path> captures_folder();

// The frames alone.
using CaptureFrames = std::vector<std::vector<std::byte>>;
[[nodiscard]] Result<CaptureFrames> read_capture(const std::filesystem::path& file);

// Ethernet frames, one a second.
[[nodiscard]] Status write_capture(const std::filesystem::path& file,
                                   std::span<const std::vector<std::byte>> frames);

}  // namespace uroce::test
