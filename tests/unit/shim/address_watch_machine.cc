#include "tests/unit/shim/address_watch_machine.h"

#include <utility>

namespace uroce::shim::test::model {
namespace {

constexpr const char* kNames[] = {
#define UROCE_MODEL_STEP(name, text) text,
    UROCE_MODEL_STEPS(UROCE_MODEL_STEP)
#undef UROCE_MODEL_STEP
};

}  // namespace

const char* name_of(Byte step) { return kNames[step]; }

bool Machine::step() {
  switch (self_.step) {
    case kNext:
    case kLock:
    case kUnlock:
    case kDone:
      return start();
    case kHappened:
    case kWake:
    case kWait:
    case kSleep:
    case kAwake:
      return wake_word();
    default:
      break;
  }
  if (self_.step < kCountUnclaims) {
    take_place();
  } else if (self_.step < kDescribed) {
    enter();
  } else if (self_.step < kLeaveRanges) {
    change();
  } else if (self_.step < kLock) {
    leave();
  } else if (self_.step < kStartFork) {
    help();
  } else {
    fork();
  }
  return true;
}

bool Machine::start() {
  if (self_.step == kDone || (self_.step == kLock && state_.locked != 0)) {
    return false;
  }
  switch (self_.step) {
    case kNext:
      go(self_.task == setting_.threads[number_].size() ? kDone
         : helps(number_) || forks()                    ? kLock
                                                        : kTakePlace);
      break;
    case kLock:
      state_.locked = 1;
      go(forks() ? kStartFork : is(Defect::kHelperLooksFirst) ? kCountDepartures : kClaimStart);
      break;
    default:
      state_.locked = 0;
      ++self_.task;
      go(kNext);
  }
  return true;
}

void Machine::take_place() {
  Place& place = state_.places[self_.place];
  const bool fork_first = is(Defect::kChangerLooksForForkFirst);
  switch (self_.step) {
    case kTakePlace:
      if (place.taken != 0) {
        self_.place = static_cast<Byte>((self_.place + 1) % setting_.places);
        break;
      }
      place.taken = 1;
      go(fork_first ? kSeeFork : kSayEmpties);
      break;
    case kSayEmpties:
      place.empties = 1;
      go(fork_first ? kCountUnclaims : kSeeFork);
      break;
    case kSeeFork:
      if (fork_first) {
        go(state_.forking != 0 ? kCountUnclaims : kSayEmpties);
      } else {
        go(state_.forking != 0 ? kSayNotEmpties : kCountUnclaims);
      }
      break;
    default:  // kSayNotEmpties
      place.empties = 0;
      go(kCountUnclaims);
  }
}

void Machine::enter() {
  Place& place = state_.places[self_.place];
  const auto& ranges = task_of(number_).ranges;
  switch (self_.step) {
    case kCountUnclaims:
      count(kUnclaims);
      if (grants() && is(Defect::kGrantStoresNoRange)) {
        return entered();
      }
      is(Defect::kChangerLooksFirst) ? look_at_claim(0) : go(kStoreStart);
      break;
    case kStoreStart:
      place.ranges[self_.at].start = ranges[self_.at].start;
      go(kStoreEnd, self_.at);
      break;
    case kStoreEnd:
      place.ranges[self_.at].end = ranges[self_.at].end;
      self_.late |= static_cast<Byte>(overlap(state_.claim, ranges[self_.at]));
      if (self_.at + 1U < kRanges && bits(ranges[1]) != 0) {
        go(kStoreStart, 1);
      } else {
        is(Defect::kChangerLooksFirst) ? entered() : look_at_claim(0);
      }
      break;
    case kClaimEndSeen:
      self_.end = state_.claim.end;
      go(kClaimStartSeen, self_.at);
      break;
    case kClaimStartSeen:
      if (!overlap({state_.claim.start, std::exchange(self_.end, Byte{0})}, ranges[self_.at])) {
        look_at_claim(static_cast<Byte>(self_.at + 1));
      } else if (is(Defect::kChangerKeepsOneRange)) {
        go(kGiveWay, 1);
      } else {
        go(kGiveWay);
      }
      break;
    default:  // kGiveWay
      place.ranges[self_.at].end = 0;
      self_.late = 0;
      if (self_.at + 1U < kRanges) {
        go(kGiveWay, 1);
        break;
      }
      if (is(Defect::kChangerCountsAfterItsLook)) {
        count(kUnclaims);
      }
      is(Defect::kChangerGivesWaySilently) ? wait(kUnclaims, kCountUnclaims)
                                           : happened(kDepartures, kWait);
  }
}

// Empty ranges are skipped.
void Machine::look_at_claim(Byte from) {
  if (from < kRanges && bits(task_of(number_).ranges[from]) != 0) {
    return go(kClaimEndSeen, from);
  }
  is(Defect::kChangerLooksFirst) ? go(kStoreStart) : entered();
}

void Machine::entered() {
  self_.inside = 1;
  self_.fresh = 0;
  if (self_.late != 0) {
    violation = Violation::kHelperStarves;
  }
  forks() ? go(kCopy) : grants() ? go(kChange) : go(kDescribed, chunk_from(0));
}

// Like Change and the memory calls that use it (memory_calls.cc).
void Machine::change() {
  const bool unmaps = task_of(number_).kind == Task::Kind::kUnmap;
  const auto next = [&](Step again, Step then) {
    const Byte at = chunk_from(static_cast<Byte>(self_.at + 1));
    at < kChunks ? go(again, at) : go(then, chunk_from(0));
  };
  switch (self_.step) {
    case kDescribed:
      if ((state_.bitmap & bit(self_.at)) != 0) {
        self_.described |= bit(self_.at);
        go(kAnnounce, self_.at);
      } else {
        next(kDescribed, unmaps && self_.described != 0 ? kForget : kChange);
      }
      break;
    case kAnnounce:
      state_.told &= static_cast<Byte>(~bit(self_.at));
      next(kDescribed, unmaps ? kForget : kChange);
      break;
    case kForget:
      state_.bitmap &= static_cast<Byte>(~bit(self_.at));
      next(kForget, kChange);
      break;
    case kChange:
      expect_alone();
      if (!grants() && (state_.told & chunks()) != 0) {
        violation = Violation::kUnannounced;
      }
      self_.described = 0;
      go(unmaps && state_.places[self_.place].empties != 0 ? kPunch : kLeaveRanges);
      break;
    default:  // kPunch
      if (state_.copying != 0) {
        violation = Violation::kForkLosesPages;
      }
      go(kLeaveRanges);
  }
}

void Machine::leave() {
  Place& place = state_.places[self_.place];
  switch (self_.step) {
    case kLeaveRanges:
      self_.inside = 0;
      place.ranges[self_.at].end = 0;
      self_.at + 1U < kRanges ? go(kLeaveRanges, 1) : go(kLeaveEmpties);
      break;
    case kLeaveEmpties:
      place.empties = 0;
      go(kLeavePlace);
      break;
    default:  // kLeavePlace
      place.taken = 0;
      self_.place = 0;
      if (forks()) {
        happened(kDepartures, kEndFork);
      } else {
        ++self_.task;
        happened(kDepartures, kNext);
      }
  }
}

void Machine::help() {
  const Range range = task_of(number_).ranges[0];
  const Place& place = state_.places[self_.at / kRanges];
  switch (self_.step) {
    case kClaimStart:
      state_.claim.start = range.start;
      go(kClaimEnd);
      break;
    case kClaimEnd:
      state_.claim.end = range.end;
      if (is(Defect::kHelperLooksFirst)) {
        claimed();
      } else {
        is(Defect::kHelperMarksBeforeItWaits) ? go(kMark, chunk_from(0)) : go(kCountDepartures);
      }
      break;
    case kCountDepartures:
      count(kDepartures);
      look_at_places(0);
      break;
    case kRangeEndSeen:
      self_.end = place.ranges[self_.at % kRanges].end;
      go(kRangeStartSeen, self_.at);
      break;
    case kRangeStartSeen:
      if (!overlap({place.ranges[self_.at % kRanges].start, std::exchange(self_.end, Byte{0})},
                   range)) {
        look_at_places(static_cast<Byte>(self_.at + 1));
        break;
      }
      if (is(Defect::kHelperCountsAfterItsLook)) {
        count(kDepartures);
      }
      wait(kDepartures, kCountDepartures);
      break;
    case kMark:
      state_.bitmap |= bit(self_.at);
      if (const Byte at = chunk_from(static_cast<Byte>(self_.at + 1)); at < kChunks) {
        go(kMark, at);
      } else if (is(Defect::kHelperMarksAfterItsClaim)) {
        go(kUnlock);
      } else {
        self_.inside != 0 ? go(kLook) : go(kCountDepartures);
      }
      break;
    case kLook:  // taken twice, since it isn't atomic
      expect_alone();
      state_.told |= chunks();
      self_.at == 0 ? go(kLook, 1) : go(kUnclaim);
      break;
    default:  // kUnclaim
      state_.claim.end = 0;
      self_.inside = 0;
      for (Thread& thread : state_.threads) {
        thread.late = 0;
      }
      if (is(Defect::kHelperMarksAfterItsClaim)) {
        go(kMark, chunk_from(0));
        break;
      }
      happened(kUnclaims, kUnlock);
  }
}

void Machine::look_at_places(Byte from) {
  if (from < setting_.places * kRanges) {
    return go(kRangeEndSeen, from);
  }
  is(Defect::kHelperLooksFirst) ? go(kClaimStart) : claimed();
}

void Machine::claimed() {
  self_.inside = 1;
  self_.fresh = 0;
  const bool marks =
      !is(Defect::kHelperMarksBeforeItWaits) && !is(Defect::kHelperMarksAfterItsClaim);
  marks ? go(kMark, chunk_from(0)) : go(kLook);
}

void Machine::fork() {
  switch (self_.step) {
    case kStartFork:
      state_.forking = 1;
      is(Defect::kForkDoesNotWait) ? go(kTakePlace) : go(kForkCounts);
      break;
    case kForkCounts:
      count(kDepartures);
      go(kForkSees, self_.at);
      break;
    case kForkSees:
      if (state_.places[self_.at].empties != 0) {
        wait(kDepartures, kForkCounts);
      } else {
        self_.at + 1U < setting_.places ? go(kForkCounts, static_cast<Byte>(self_.at + 1))
                                        : go(kTakePlace);
      }
      break;
    case kCopy:
      state_.copying = 1;
      go(kCopied);
      break;
    case kCopied:
      state_.copying = 0;
      go(kLeaveRanges);
      break;
    default:  // kEndFork
      state_.forking = 0;
      go(kUnlock);
  }
}

bool Machine::wake_word() {
  Byte& sleepers = state_.sleepers[self_.word];
  const bool counts = !is(Defect::kSleeperDoesNotSaySo);
  switch (self_.step) {
    case kHappened:
      for (Thread& thread : state_.threads) {
        thread.fresh = thread.counted == self_.word ? Byte{0} : thread.fresh;
      }
      go(kWake);
      return true;
    case kWake:
      for (Thread& thread : state_.threads) {
        if (sleepers != 0 && thread.word == self_.word) {
          thread.asleep = 0;
        }
      }
      break;
    case kWait:
      sleepers = static_cast<Byte>(sleepers + (counts ? 1 : 0));
      go(kSleep);
      return true;
    case kSleep:  // the kernel compares and sleeps atomically
      self_.asleep = self_.fresh;
      go(kAwake);
      return true;
    default:  // kAwake
      if (self_.asleep != 0) {
        return false;
      }
      sleepers = static_cast<Byte>(sleepers - (counts ? 1 : 0));
  }
  const auto back = static_cast<Step>(self_.back);
  const Byte at = self_.back_at;
  self_.word = self_.back = self_.back_at = 0;
  // A changer that gave way next waits for the end of the claim.
  back == kWait ? wait(kUnclaims, kCountUnclaims) : go(back, at);
  return true;
}

// Of a changer and a helper that are inside with overlapping memory, there is never more than one.
void Machine::expect_alone() {
  for (std::size_t other = 0; other < setting_.threads.size(); ++other) {
    if (other == number_ || state_.threads[other].inside == 0 || helps(other) == helps(number_)) {
      continue;
    }
    const auto& theirs = task_of(other).ranges;
    for (const Range range : task_of(number_).ranges) {
      if (overlap(range, theirs[0]) || overlap(range, theirs[1])) {
        violation = Violation::kTogether;
      }
    }
  }
}

}  // namespace uroce::shim::test::model
