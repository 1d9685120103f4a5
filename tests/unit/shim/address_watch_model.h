#pragma once

// AddressWatch (verbs_shim/memory/sharing/address_watch.cc) as a machine of single steps, of which
// all interleavings are tried. A step is one access of the code's to something that threads share;
// the step's name says which. The accesses that matter are sequentially consistent, so all orders
// of them are all that can happen. Whoever changes the code changes the machine.
//
// It is small: two chunks of memory, each with a word of the book to itself, at most two places for
// changers, up to three threads with a few calls each. What the watch promises is asserted by the
// help of things that only the model knows (the last lines of State).

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

// One call of a thread's.
struct Task {
  enum class Kind : Byte {
    kProtect,  // a change
    kUnmap,    // a change that forgets, and gives places in an arena back
    kShare,    // a helper's
    kFork,
  } kind;
  std::array<Range, kRanges> ranges{};  // of a fork: everything
};

// Ways in which the protocol could be written, and would be wrong.
enum class Defect : Byte {
  kNone,
  kChangerLooksFirst,          // at the claim, before it stores its ranges
  kHelperLooksFirst,           // at the ranges, before it stores its claim
  kHelperMarksBeforeItWaits,   // in the book
  kHelperMarksAfterItsClaim,   // in the book
  kChangerKeepsOneRange,       // while it waits for a helper that is at the other
  kChangerGivesWaySilently,    // so that the helper isn't woken
  kHelperCountsAfterItsLook,   // departures
  kChangerCountsAfterItsLook,  // ends of claims
  kSleeperDoesNotSaySo,        // in EventCount::wait
  kChangerLooksForForkFirst,   // before it says that it may empty places
  kForkDoesNotWait,            // for those who may
};

enum class Violation : Byte {
  kTogether,        // a changer and a helper are at the same memory
  kUnannounced,     // memory that was described to the daemon changes, and the daemon isn't told
  kHelperStarves,   // a changer that came after the claim gets in before the helper
  kForkLosesPages,  // a place is emptied that a fork's child has yet to copy
  kStuck,           // from there on not all can finish
};

struct Setting {
  Byte places = kPlacesMax;
  std::vector<std::vector<Task>> threads;
  Defect defect = Defect::kNone;
};

struct Result {
  std::size_t states = 0;
  // A shortest way to each: its steps, a line each.
  std::map<Violation, std::string> violations;
};

// Tries all orders in which the threads can take their steps; or, where something is to go wrong,
// the shorter ones first, until it does.
Result explore(const Setting& setting, std::optional<Violation> until = std::nullopt);

}  // namespace uroce::shim::test::model
