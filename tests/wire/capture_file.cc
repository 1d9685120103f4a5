// Reading and writing capture files with libpcap.

#include "tests/wire/capture_file.h"

#include <pcap/pcap.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace uroce::test {
namespace {

constexpr int kSnapLength = 65'535;

struct Close {
  void operator()(pcap_t* handle) const { pcap_close(handle); }
  void operator()(pcap_dumper_t* dumper) const { pcap_dump_close(dumper); }
};

}  // namespace

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
  std::array<char, PCAP_ERRBUF_SIZE> reason{};
  const std::unique_ptr<pcap_t, Close> handle(pcap_open_offline(file.c_str(), reason.data()));
  if (handle == nullptr) {
    return Error{EIO, file.string() + ": " + reason.data()};
  }
  if (pcap_datalink(handle.get()) != DLT_EN10MB) {
    return Error{EIO, file.string() + ": not a capture of Ethernet frames"};
  }
  CaptureFrames frames;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int outcome = 0;
  while ((outcome = pcap_next_ex(handle.get(), &header, &data)) == 1) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    frames.emplace_back(bytes, bytes + header->caplen);
  }
  if (outcome != PCAP_ERROR_BREAK) {
    return Error{EIO, file.string() + ": " + pcap_geterr(handle.get())};
  }
  return frames;
}

Status write_capture(const std::filesystem::path& file,
                     std::span<const std::vector<std::byte>> frames) {
  const std::unique_ptr<pcap_t, Close> handle(pcap_open_dead(DLT_EN10MB, kSnapLength));
  const std::unique_ptr<pcap_dumper_t, Close> dumper(pcap_dump_open(handle.get(), file.c_str()));
  if (dumper == nullptr) {
    return Error{EIO, std::string(pcap_geterr(handle.get()))};
  }
  pcap_pkthdr header{};
  for (const std::vector<std::byte>& frame : frames) {
    header.ts.tv_sec += 1;
    header.caplen = header.len = static_cast<bpf_u_int32>(frame.size());
    pcap_dump(reinterpret_cast<u_char*>(dumper.get()), &header,
              reinterpret_cast<const u_char*>(frame.data()));
  }
  return pcap_dump_flush(dumper.get()) == 0 ? ok() : Status(Error{EIO, file.string() + ": write"});
}

}  // namespace uroce::test
