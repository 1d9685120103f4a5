#pragma once

// A capture that a test writes packet by packet: the two ends of a connection, requester A and
// responder B. Time advances by 10 us with each packet.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/check/analyser.h"
#include "apps/replay/capture_file.h"
#include "dataplane/wire/build.h"

namespace uroce::test {

inline constexpr std::uint32_t kMtu = 1'024;
inline constexpr std::uint32_t kAskerQpn = 0x11, kAnswererQpn = 0x22;
inline constexpr std::uint32_t kFirstPsn = 0xFF'FFFE;  // so that the PSN wraps
inline constexpr std::uint64_t kAddress = 0x10'0000;

// Long enough for everything to be repaired.
inline constexpr Duration kLong = kNanosecondsPerSecond;
inline constexpr Opcode kMiddle = Opcode::kRcWriteMiddle;

class Story {
 public:
  Story();
  ~Story();
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  void wait(Duration duration) { now_ += duration; }

  // From A. PSNs count from 0.
  void write(std::uint32_t psn);                              // ONLY, 64 bytes
  void write_long(std::uint32_t psn, std::uint32_t packets);  // FIRST ... LAST
  void ask(Opcode opcode, std::uint32_t psn, std::uint32_t payload);
  void read(std::uint32_t psn, std::uint32_t length, std::uint64_t address = kAddress);
  // From B.
  void ack(std::uint32_t psn) { word(psn, kSyndromeAckUnlimited); }
  void nak(std::uint32_t psn) { word(psn, kSyndromeNak); }
  void rnr_nak(std::uint32_t psn, std::uint8_t code) {
    word(psn, static_cast<std::uint8_t>(kSyndromeRnr | code));
  }
  void word(std::uint32_t psn, std::uint8_t syndrome);
  void response(Opcode opcode, std::uint32_t psn, std::uint32_t payload = kMtu);
  void responses(std::uint32_t psn, std::uint32_t packets);
  void notify();  // a CNP
  // Much later, another message, which arrives.
  void go_on(std::uint32_t psn);

  // Whether A's next packets are marked as congested.
  void mark(bool marked) { marked_ = marked; }

  // The last packet, to be modified.
  std::vector<std::byte>& last() { return frames_.back().bytes; }
  std::vector<replay::CapturedFrame>& frames() { return frames_; }

  // Writes the packets to a file, and has it analysed.
  void analyse(check::Verdict& verdict, const check::Limits& limits = {});
  [[nodiscard]] std::filesystem::path write_file();

 private:
  void send(const Path& path, Headers headers, std::uint32_t psn, std::uint32_t payload);

  Path asker_, answerer_;
  std::vector<replay::CapturedFrame> frames_;
  std::string folder_;
  Time now_ = 1'000 * kNanosecondsPerSecond;
  std::uint16_t ip_id_ = 0;
  bool marked_ = false;
};

// How often each fault was found, over all connections: "nak_missing 1, second_nak 2".
[[nodiscard]] std::string found(const check::Verdict& verdict);

}  // namespace uroce::test
