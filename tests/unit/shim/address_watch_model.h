#pragma once

// AddressWatch (verbs_shim/memory/sharing/address_watch.cc) as a machine of single steps, of which
// all interleavings are explored. A step is one access of the code to shared state, and is named
// after it. The accesses that matter are sequentially consistent, so their interleavings cover
// everything that can happen. Whoever changes the code changes the machine.
//
// It is small: two chunks of memory, each with its own word of the bitmap, at most two places for
// changers, up to three threads with a few calls each. The guarantees of the watch are asserted
// with the help of state that only the model has (the last lines of State).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace uroce::shim::test::model {

using Byte = std::uint8_t;

inline constexpr Byte kChunks = 2;
inline constexpr Byte kPlacesMax = 2;
inline constexpr Byte kRanges = 2;  // of a changer
inline constexpr std::size_t kThreadsMax = 3;

struct Range {
  Byte start = 0;
  Byte end = 0;  // not above start: empty
};

// One call of a thread.
struct Task {
  enum class Kind : Byte {
    kProtect,  // a change
    kGrant,    // a change that takes nothing away, and isn't announced
    kUnmap,    // a change that forgets, and returns places in an arena
    kShare,    // a helper's
    kFork,
  } kind;
  std::array<Range, kRanges> ranges{};  // for a fork: everything
};

// Mistakes that the protocol could have.
enum class Defect : Byte {
  kNone,
  kChangerLooksFirst,          // at the claim, before it stores its ranges
  kHelperLooksFirst,           // at the ranges, before it stores its claim
  kHelperMarksBeforeItWaits,   // in the bitmap
  kHelperMarksAfterItsClaim,   // in the bitmap
  kChangerKeepsOneRange,       // while it waits for a helper that has claimed the other
  kChangerGivesWaySilently,    // so the helper isn't woken
  kHelperCountsAfterItsLook,   // at departures
  kChangerCountsAfterItsLook,  // at ends of claims
  kSleeperDoesNotSaySo,        // in EventCount::wait
  kChangerLooksForForkFirst,   // before it announces that it may empty places
  kForkDoesNotWait,            // for changers that may
  kGrantStoresNoRange,         // because it needn't be announced
};

enum class Violation : Byte {
  kTogether,        // a changer and a helper are inside for the same memory
  kUnannounced,     // memory that was described to the daemon changes, and the daemon isn't told
  kHelperStarves,   // a changer that came after the claim gets in before the helper
  kForkLosesPages,  // a place is emptied that a fork's child has yet to copy
  kStuck,           // a state from which not all threads can finish
};

struct Setting {
  Byte places = kPlacesMax;
  std::vector<std::vector<Task>> threads;
  Defect defect = Defect::kNone;
};

struct Result {
  std::size_t states = 0;
  // A shortest way to each violation: its steps, one per line.
  std::map<Violation, std::string> violations;
};

// Explores all orders in which the threads can take their steps; with `until`, shorter ones first,
// until that violation occurs.
Result explore(const Setting& setting, std::optional<Violation> until = std::nullopt);

}  // namespace uroce::shim::test::model
