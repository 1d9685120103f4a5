#pragma once

// The state machine of address_watch_model.h: its state and its steps.

#include <optional>
#include <type_traits>

#include "tests/unit/shim/address_watch_model.h"

namespace uroce::shim::test::model {

// `f: x` is the access x in function f of address_watch.cc or event_count.h; the other steps model
// what happens to the memory.
#define UROCE_MODEL_STEPS(STEP)                                 \
  STEP(kNext, "the next call")                                  \
  STEP(kTakePlace, "enter: taken.exchange(true)")               \
  STEP(kSayEmpties, "enter: empties.store(true)")               \
  STEP(kSeeFork, "enter: forking_.load")                        \
  STEP(kSayNotEmpties, "enter: empties.store(false)")           \
  STEP(kCountUnclaims, "enter: unclaims_.count")                \
  STEP(kStoreStart, "enter: SharedRange::store: start")         \
  STEP(kStoreEnd, "enter: SharedRange::store: end")             \
  STEP(kClaimEndSeen, "enter: claim_.overlaps: end.load")       \
  STEP(kClaimStartSeen, "enter: claim_.overlaps: start.load")   \
  STEP(kGiveWay, "enter: SharedRange::clear")                   \
  STEP(kDescribed, "described: bitmap_[word].load")             \
  STEP(kAnnounce, "the daemon is told")                         \
  STEP(kForget, "forget: bitmap_[word].fetch_and")              \
  STEP(kChange, "the mapping changes")                          \
  STEP(kPunch, "a place in an arena is emptied")                \
  STEP(kLeaveRanges, "leave: SharedRange::clear")               \
  STEP(kLeaveEmpties, "leave: empties.store(false)")            \
  STEP(kLeavePlace, "leave: taken.store(false)")                \
  STEP(kLock, "the mutex is taken")                             \
  STEP(kClaimStart, "claim: claim_.store: start")               \
  STEP(kClaimEnd, "claim: claim_.store: end")                   \
  STEP(kCountDepartures, "claim: departures_.count")            \
  STEP(kRangeEndSeen, "is_changed: overlaps: end.load")         \
  STEP(kRangeStartSeen, "is_changed: overlaps: start.load")     \
  STEP(kMark, "mark: bitmap_[word].fetch_or")                   \
  STEP(kLook, "a helper looks, and describes what it sees")     \
  STEP(kUnclaim, "unclaim: claim_.clear")                       \
  STEP(kStartFork, "start_fork: forking_.store(true)")          \
  STEP(kForkCounts, "start_fork: departures_.count")            \
  STEP(kForkSees, "start_fork: empties.load")                   \
  STEP(kCopy, "a fork's child begins to copy")                  \
  STEP(kCopied, "a fork's child has its copy")                  \
  STEP(kEndFork, "end_fork: forking_.store(false)")             \
  STEP(kUnlock, "the mutex is left")                            \
  STEP(kHappened, "EventCount::happened: count_.fetch_add")     \
  STEP(kWake, "EventCount::happened: sleepers_.load, and wake") \
  STEP(kWait, "EventCount::wait: sleepers_.fetch_add")          \
  STEP(kSleep, "EventCount::wait: futex")                       \
  STEP(kAwake, "EventCount::wait: sleepers_.fetch_sub")         \
  STEP(kDone, "nothing is left to do")

enum Step : Byte {
#define UROCE_MODEL_STEP(name, text) name,
  UROCE_MODEL_STEPS(UROCE_MODEL_STEP)
#undef UROCE_MODEL_STEP
};

const char* name_of(Byte step);

enum Word : Byte { kDepartures, kUnclaims };

struct Place {
  Byte taken, empties;
  std::array<Range, kRanges> ranges;
};
struct Thread {
  Byte step, task;
  Byte place;      // a changer's
  Byte at;         // index of the next chunk, range, or range of a place
  Byte end;        // of the range whose start is read next
  Byte described;  // a bit for each chunk
  // Of an EventCount: which one's count was read, and whether it is still the current count.
  // (Nothing else about counts matters.)
  Byte counted, fresh;
  Byte word, back, back_at;  // in a function of EventCount: which one, and where it returns to
  Byte asleep;               // at the futex
  Byte inside;               // between enter and leave, or claim and unclaim
  Byte late;                 // stored its ranges after a claim to them
};
// Bytes only, so that states can be compared and stored as they are.
struct State {
  std::array<Place, kPlacesMax> places;
  Range claim;
  std::array<Byte, 2> sleepers;  // of each EventCount
  Byte bitmap;                   // a bit for each chunk
  Byte forking, locked;
  std::array<Thread, kThreadsMax> threads;
  Byte told;     // the chunks whose contents the daemon believes to know
  Byte copying;  // a fork's child
};

static_assert(std::has_unique_object_representations_v<State>);

inline bool overlap(Range a, Range b) {
  return a.start < a.end && b.start < b.end && a.start < b.end && b.start < a.end;
}

inline Byte bit(Byte chunk) { return static_cast<Byte>(1U << chunk); }

inline Byte bits(Range range) {
  Byte result = 0;
  for (Byte chunk = range.start; chunk < range.end; ++chunk) {
    result |= bit(chunk);
  }
  return result;
}

// One thread, about to take a step.
class Machine {
 public:
  Machine(const Setting& setting, State& state, std::size_t number)
      : setting_(setting), state_(state), self_(state.threads[number]), number_(number) {}

  // False: it waits for another thread, or is done.
  bool step();
  std::optional<Violation> violation;

 private:
  bool start();
  void take_place();
  void enter();
  void change();
  void leave();
  void help();
  void fork();
  bool wake_word();

  [[nodiscard]] bool is(Defect defect) const { return setting_.defect == defect; }
  [[nodiscard]] const Task& task_of(std::size_t thread) const {
    return setting_.threads[thread][state_.threads[thread].task];
  }
  [[nodiscard]] bool forks() const { return task_of(number_).kind == Task::Kind::kFork; }
  [[nodiscard]] bool grants() const { return task_of(number_).kind == Task::Kind::kGrant; }
  [[nodiscard]] bool helps(std::size_t thread) const {
    return task_of(thread).kind == Task::Kind::kShare;
  }
  [[nodiscard]] Byte chunks() const {
    return static_cast<Byte>(bits(task_of(number_).ranges[0]) | bits(task_of(number_).ranges[1]));
  }
  void go(Step step, Byte at = 0) {
    self_.step = step;
    self_.at = at;
  }
  // Functions of EventCount.
  void count(Word word) {
    self_.counted = word;
    self_.fresh = 1;
  }
  void wait(Word word, Step back) {
    self_.word = word;
    self_.back = back;
    self_.back_at = self_.at;
    go(kWait);
  }
  void happened(Word word, Step back) {
    self_.word = word;
    self_.back = back;
    self_.back_at = 0;
    go(kHappened);
  }
  // The call's next chunk from `at` on; kChunks: none.
  [[nodiscard]] Byte chunk_from(Byte at) const {
    while (at < kChunks && (chunks() & bit(at)) == 0) {
      ++at;
    }
    return at;
  }
  void look_at_claim(Byte from);
  void look_at_places(Byte from);
  void entered();
  void claimed();
  void expect_alone();

  const Setting& setting_;
  State& state_;
  Thread& self_;
  std::size_t number_;
};

}  // namespace uroce::shim::test::model
