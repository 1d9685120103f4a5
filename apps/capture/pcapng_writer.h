#pragma once

// A pcapng file (draft-ietf-opsawg-pcapng): one section, an interface for each device, packets with
// comments, and what was lost at the end.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace uroce::capture {

struct PacketBlock {
  std::uint32_t interface = 0;
  std::uint64_t time_ns = 0;  // since 1970
  std::span<const std::byte> bytes;
  std::uint32_t frame_length = 0;
  bool outbound = false;
  std::vector<std::string> comments;
};

class PcapngWriter {
 public:
  // "-" is standard output. A file that is created is readable for its user only.
  [[nodiscard]] static Result<PcapngWriter> open(const std::string& path,
                                                 const std::string& application);

  void add_interface(const std::string& name, std::uint32_t snap);
  void add(const PacketBlock& packet);
  void add_statistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t received,
                      std::uint64_t missed);
  // What was written is there for whoever reads the file meanwhile. False: the disk is full, or the
  // reader gone.
  [[nodiscard]] bool flush();
  [[nodiscard]] int error() const { return error_; }  // errno of the first write that failed

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdout) {
        std::fclose(file);
      }
    }
  };
  explicit PcapngWriter(std::FILE* file) : file_(file) {}

  void begin(std::uint32_t type);
  void number(std::uint64_t value, std::size_t bytes);
  void padded(std::span<const std::byte> bytes);
  void option(std::uint16_t code, std::span<const std::byte> bytes);
  void option(std::uint16_t code, const std::string& text);
  void end();

  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::byte> block_;
  int error_ = 0;
};

}  // namespace uroce::capture
