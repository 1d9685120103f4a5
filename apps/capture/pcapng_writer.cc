#include "apps/capture/pcapng_writer.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace uroce::capture {
namespace {

constexpr std::uint32_t kSection = 0x0A0D0D0A, kInterface = 1, kStatistics = 5, kEnhanced = 6;
constexpr std::uint32_t kByteOrder = 0x1A2B3C4D;
constexpr std::uint16_t kEthernet = 1;
constexpr std::uint16_t kComment = 1, kUserApplication = 4;
constexpr std::uint16_t kName = 2, kResolution = 9;
constexpr std::uint16_t kFlags = 2;
constexpr std::uint16_t kReceivedCount = 4, kMissedCount = 5;
constexpr std::uint8_t kNanoseconds = 9;
constexpr std::uint32_t kInbound = 1, kOutbound = 2;
constexpr std::size_t kAlignment = 4;

std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

// What programs sent is for their user's eyes: a new file is the user's own. One that exists keeps
// its mode. nullptr: see errno.
std::FILE* create(const std::string& path) {
  constexpr mode_t kOwnersOnly = 0600;
  UniqueFd descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnersOnly));
  std::FILE* const file = descriptor.valid() ? ::fdopen(descriptor.get(), "wb") : nullptr;
  if (file != nullptr) {
    (void)descriptor.release();  // the stream's now
  }
  return file;
}

}  // namespace

Result<PcapngWriter> PcapngWriter::open(const std::string& path, const std::string& application) {
  std::FILE* const file = path == "-" ? stdout : create(path);
  if (file == nullptr) {
    return Error{errno, path + ": " + std::strerror(errno)};
  }
  PcapngWriter writer(file);
  writer.begin(kSection);
  writer.number(kByteOrder, 4);
  writer.number(1, 2);  // version 1.0
  writer.number(0, 2);
  writer.number(UINT64_MAX, 8);  // section length: unknown
  writer.option(kUserApplication, application);
  writer.end();
  return writer;
}

void PcapngWriter::begin(std::uint32_t type) {
  block_.clear();
  number(type, 4);
  number(0, 4);  // the length, once it is known
}

void PcapngWriter::number(std::uint64_t value, std::size_t bytes) {
  const auto all = bytes_of(value);
  block_.insert(block_.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes));
}

void PcapngWriter::padded(std::span<const std::byte> bytes) {
  block_.insert(block_.end(), bytes.begin(), bytes.end());
  block_.resize((block_.size() + kAlignment - 1) / kAlignment * kAlignment);
}

void PcapngWriter::option(std::uint16_t code, std::span<const std::byte> bytes) {
  number(code, 2);
  number(bytes.size(), 2);
  padded(bytes);
}

void PcapngWriter::option(std::uint16_t code, const std::string& text) {
  option(code, std::as_bytes(std::span(text)));
}

void PcapngWriter::end() {
  number(0, 4);  // end of options
  const auto length = static_cast<std::uint32_t>(block_.size() + sizeof(std::uint32_t));
  number(length, 4);
  std::memcpy(block_.data() + sizeof(std::uint32_t), &length, sizeof(length));
  if (std::fwrite(block_.data(), 1, block_.size(), file_.get()) != block_.size() && error_ == 0) {
    error_ = errno;
  }
}

void PcapngWriter::add_interface(const std::string& name, std::uint32_t snap) {
  begin(kInterface);
  number(kEthernet, 2);
  number(0, 2);
  number(snap, 4);
  option(kName, name);
  option(kResolution, bytes_of(kNanoseconds));
  end();
}

void PcapngWriter::add(const PacketBlock& packet) {
  begin(kEnhanced);
  number(packet.interface, 4);
  number(packet.time_ns >> 32U, 4);
  number(packet.time_ns & 0xFFFF'FFFF, 4);
  number(packet.bytes.size(), 4);
  number(packet.frame_length, 4);
  padded(packet.bytes);
  option(kFlags, bytes_of(packet.outbound ? kOutbound : kInbound));
  for (const std::string& comment : packet.comments) {
    option(kComment, comment);
  }
  end();
}

void PcapngWriter::add_statistics(std::uint32_t interface, std::uint64_t time_ns,
                                  std::uint64_t received, std::uint64_t missed) {
  begin(kStatistics);
  number(interface, 4);
  number(time_ns >> 32U, 4);
  number(time_ns & 0xFFFF'FFFF, 4);
  option(kReceivedCount, bytes_of(received));
  option(kMissedCount, bytes_of(missed));
  end();
}

bool PcapngWriter::flush() {
  if (std::fflush(file_.get()) != 0 && error_ == 0) {
    error_ = errno;
  }
  return error_ == 0;
}

}  // namespace uroce::capture
