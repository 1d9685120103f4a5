#pragma once

// A page fault of the card: memory that is paged on demand was accessed and isn't resident. The
// role that accessed it parks; the record goes to the fault thread (FaultQueue), which populates
// the pages (Pager) and returns it to the worker that raised it.

#include <array>
#include <cstdint>
#include <memory>

#include "base/enum_array.h"
#include "base/time.h"
#include "mmu/access.h"
#include "mmu/proc_mem/proc_mem_copy.h"

namespace uroce {

class Mirror;
class Region;
struct FlushRequest;

// The roles of a queue pair that touch memory; each parks by itself.
enum class FaultRole : std::uint8_t {
  kRequester,  // reads what is sent
  kCompleter,  // writes answers to READs and atomics
  kResponder,  // executes requests
  kAnswer,     // reads what READ requests asked for
};
inline constexpr std::size_t kFaultRoles = 4;

// What a role needs.
struct FaultRequest {
  std::uint32_t key = 0;      // of the region, for the statistics
  std::uint64_t address = 0;  // in the program
  std::uint64_t length = 0;   // needed now
  std::uint64_t ahead = 0;    // bytes behind it that the same message will touch
  std::uint64_t limit = 0;    // where the region ends
  bool write = false;
};

// When each step of a fault was over.
struct FaultTimes {
  Time raised = 0;
  Time taken = 0;      // by the fault thread
  Time shared = 0;     // the program has answered, if it was asked
  Time populated = 0;  // the pages are there
};

// The part of a record that the raising worker needs when it is returned: which role is parked for
// it, and the outcome.
struct WaitingRole {
  std::uint32_t worker = 0;
  std::uint32_t qpn = 0;
  std::uint32_t ticket = 0;  // FaultSlot::ticket when it was raised
  FaultRole role = FaultRole::kRequester;
  Access outcome = Access::kGranted;  // or why the memory isn't accessible
  std::uint64_t failed_page = 0;      // of a fault: the page that isn't accessible
};

struct PageFault : WaitingRole {
  FaultRequest request{};
  std::shared_ptr<Mirror> mirror{};  // only while it is on its way to the fault thread and there

  FaultTimes times{};

  // The Pager's notes. Chunk `answered_chunk` was described by the program as it was after
  // `answered_changes` (Mirror::changes): what isn't there then doesn't exist.
  std::uint64_t answered_chunk = 0;
  std::uint64_t answered_changes = 0;
  std::uint32_t retries = 0;
  Duration fails_at = 0;  // by the running time
  bool asked = false;
  bool refreshed = false;  // its rights were asked for anew
  bool counted = false;    // in the mirror's FaultQuota

  void release();
};

// A role's record of its fault, in the queue pair.
struct FaultSlot {
  std::uint32_t ticket = 0;  // changes with each fault and each reset: an old answer finds nobody
  bool waiting = false;
  bool parked = false;    // the role waits for `page`, raised or not
  bool for_copy = false;  // parked: not for that page, but for a copy through /proc/PID/mem
  // Set by the first copy through /proc/PID/mem. Each message checks this and `parked`.
  std::unique_ptr<ProcMemSlot> slow{};
  Time since = 0, looked = 0;  // parked: since when, and the time of the last check
  std::uint64_t page = kNoPage;
  bool flushing = false;             // the fault is a flush, under way or done
  Access failed = Access::kGranted;  // the answer to the next access to failed_page
  std::uint64_t failed_page = 0;

  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};

  // Another fault on the same page within this time counts as continued waiting.
  void park(std::uint64_t wanted, Time now) {
    constexpr Duration kLong = 10 * kNanosecondsPerMillisecond;
    since = wanted == page && now - looked < kLong ? since : now;
    looked = now;
    page = wanted;
    parked = true;
    for_copy = false;
  }
  void reset() { *this = {.ticket = ticket + 1}; }
};
using FaultSlots = EnumArray<FaultRole, FaultSlot, kFaultRoles>;

// The outcome of trying to populate a page in the worker, without a fault. kLater: there is other
// work first; the sink resumes the role.
enum class InlinePopulate : std::uint8_t { kDone, kLater, kFault };

// Where roles raise faults. Called once per fault, and again by roles that were told to wait.
class FaultSink {
 public:
  virtual ~FaultSink() = default;
  // Populates the page if that doesn't block.
  virtual InlinePopulate populate_inline(const FaultRequest& /*request*/, Mirror& /*mirror*/,
                                         std::uint32_t /*qpn*/) {
    return InlinePopulate::kFault;
  }
  // The fault's outcome is returned to this slot (Qp::settle), by its ticket. False if there is no
  // record left; the sink makes sure that the role is resumed, and retries, when there is one.
  // REQUIRES: the region is paged on demand.
  virtual bool raise(const FaultRequest& request, const Region& region, std::uint32_t qpn,
                     FaultRole role, std::uint32_t ticket) = 0;
  // The same for memory that is to be on disk (FlushQueue). REQUIRES: the region has
  // kAccessFlushPersistent.
  virtual bool flush(const FlushRequest& request, const Region& region, std::uint32_t qpn,
                     FaultRole role, std::uint32_t ticket) = 0;
  // Submits a copy through /proc/PID/mem: it comes back to the slot (Qp::take_copy), and the role
  // is resumed. False, with *copy unchanged, if there is no room; then as raise().
  virtual bool copy(std::unique_ptr<ProcMemCopy>* copy) = 0;
  // The role must not access memory now, and is resumed when it may.
  virtual void withhold(std::uint32_t /*qpn*/) {}
  // The usual duration of a fault, from previous ones.
  [[nodiscard]] virtual Duration usual_time() const = 0;
};

}  // namespace uroce
