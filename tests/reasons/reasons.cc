#include "tests/reasons/reasons.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "apps/replay/rings.h"
#include "dataplane/wire/opcode.h"

namespace uroce::test {
namespace {

// What was met of one kind, by its number. Written down when the program ends.
using Met = std::array<std::atomic<bool>, 256>;

struct Notes {
  Met drops{}, statuses{}, naks_sent{}, naks_received{};

  ~Notes() {
    const char* folder = std::getenv("UROCE_REASONS");
    if (folder == nullptr) {
      return;
    }
    std::ofstream file(std::string(folder) + "/" + program_invocation_short_name + "-" +
                       std::to_string(getpid()));
    write(file, "drop", drops);
    write(file, "status", statuses);
    write(file, "nak_sent", naks_sent);
    write(file, "nak_received", naks_received);
  }

  static void write(std::ostream& file, const char* kind, const Met& met) {
    for (std::size_t number = 0; number < met.size(); ++number) {
      if (met[number]) {
        file << kind << ' ' << number << '\n';
      }
    }
  }
};

Notes& notes() {
  static Notes all;
  return all;
}

std::optional<std::uint8_t> nak_of(const Packet& packet) {
  if (!opcode_info(packet.opcode).has(Extension::kAeth)) {
    return std::nullopt;
  }
  const std::uint8_t syndrome = packet.aeth().syndrome;
  return (syndrome & kSyndromeKindMask) == kSyndromeNak
             ? std::optional(static_cast<std::uint8_t>(syndrome & kSyndromeValueMask))
             : std::nullopt;
}

void set(Met& met, std::size_t number) {
  met[number].store(true, std::memory_order_relaxed);  // read when all threads have ended
}

// Programs played by tests tell what they poll.
const bool polls_are_noted = [] {
  CompletionRing::observer = note;
  return true;
}();

}  // namespace

void note(Drop drop) { set(notes().drops, static_cast<std::size_t>(drop)); }
void note(abi::WcStatus status) { set(notes().statuses, static_cast<std::size_t>(status)); }

void note_drops(std::span<const std::uint64_t> drops) {
  for (std::size_t reason = 0; reason < drops.size(); ++reason) {
    if (drops[reason] != 0) {
      set(notes().drops, reason);
    }
  }
}

void note_sent(const Packet& packet) {
  if (const auto nak = nak_of(packet)) {
    set(notes().naks_sent, *nak);
  }
}

void note_received(const Packet& packet) {
  if (const auto nak = nak_of(packet)) {
    set(notes().naks_received, *nak);
  }
}

}  // namespace uroce::test
