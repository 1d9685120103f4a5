#include "tests/wire/capture_file.h"

#include <cerrno>
#include <cstdlib>

#include "apps/replay/capture_file.h"

namespace uroce::test {

Result<std::filesystem::path> captures_folder() {
  const char* shared = std::getenv("UROCE_SHARED");
  const std::filesystem::path folder =
      (shared != nullptr ? std::filesystem::path(shared)
                         : std::filesystem::path(UROCE_SOURCE_ROOT).parent_path() / "shared") /
      "captures";
  if (!std::filesystem::exists(folder / "INDEX.md")) {
    return Error{ENOENT, "no captures in " + folder.string() +
                             ": set UROCE_SHARED to the folder that holds captures/"};
  }
  return folder;
}

Result<CaptureFrames> read_capture(const std::filesystem::path& file) {
  auto captured = replay::read_capture(file);
  if (!captured) {
    return captured.error();
  }
  CaptureFrames frames;
  for (auto& frame : *captured) {
    frames.push_back(std::move(frame.bytes));
  }
  return frames;
}

Status write_capture(const std::filesystem::path& file,
                     std::span<const std::vector<std::byte>> frames) {
  std::vector<replay::CapturedFrame> captured;
  for (const std::vector<std::byte>& bytes : frames) {
    captured.push_back({.time = captured.size() * kNanosecondsPerSecond, .bytes = bytes});
  }
  return replay::write_capture(file, captured);
}

}  // namespace uroce::test
