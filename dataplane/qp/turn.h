#pragma once

// What a worker passes to a queue pair for one turn: time, where frames go, keys, sinks.

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "dataplane/qp/recovery/read_credits.h"
#include "dataplane/qp/recovery/recovery.h"
#include "dataplane/qp/tx_batch.h"
#include "mmu/faults/page_fault.h"
#include "mmu/key_table.h"

namespace uroce {

class CompletionQueue;
class Qp;
struct FailureReport;

// Asynchronous events; values as in enum ibv_event_type.
enum class AsyncEvent : std::uint8_t {
  kCqErr = 0,
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kPathMig = 6,
  kPathMigErr = 7,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortErr = 10,
  kLidChange = 11,
  kPkeyChange = 12,
  kSmChange = 13,
  kSrqErr = 14,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kClientReregister = 17,
  kGidChange = 18,
};

// Where queue pairs, completion queues and shared receive queues announce events of which control
// must tell the program. Called rarely (a state change, an error), so a virtual call is fine.
// Bounded: beyond the bound, events are dropped and counted.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // `object` is the daemon-wide handle of the QP (its number), CQ or SRQ that the event is about.
  virtual void announce(AsyncEvent event, std::uint32_t object) = 0;
  // Why something failed, for `uroce errors`. Sinks without an error log ignore it.
  virtual void report(const FailureReport& /*report*/) {}
};

// The outcome of receiving a frame.
enum class [[nodiscard]] Step : std::uint8_t{
    kDone,        // the frame may be released
    kParked,      // memory is not resident: keep the frame, in order, and receive() it again after
                  // resume
    kOutOfOrder,  // one before it is missing: buffer the frame, and receive() it `again`, in the
                  // order of PSNs, after each frame that is done with. Only where Turn::may_buffer
                  // allows it
};

// The overhead charged for a direct message beside its bytes: about the headers and the
// acknowledgement of one packet.
inline constexpr std::uint32_t kDirectCost = 64;

struct Turn {
  Time now = 0;
  TxBatch& tx;  // of the queue pair's port
  const KeyTable& keys;
  EventSink& events;
  std::vector<CompletionQueue*>&
      dirty_queues;             // got a completion: the engine flushes them after the drain
  FaultSink* faults = nullptr;  // nullptr: there is no on-demand paging
  ReadCredits read_credits{};   // for READs that are begun
  Recovery recovery = Recovery::kSelective;
  bool may_buffer = false;      // there is room for an out-of-order frame
  bool room_missing = false;    // set where an out-of-order frame was dropped for want of room
  bool again = false;           // the frame received is one that was buffered
  bool withheld = false;        // others come before whoever touches memory for it: its roles park
  bool many_doorbells = false;  // many queue pairs are busy: fewer of their messages are timed
  // The local peer: the queue pair at the other end, if it belongs to this worker and nothing needs
  // to see frames between the two; nullptr: frames are needed. Valid for one call of Qp::transmit,
  // which counts in direct_bytes what was transferred directly.
  Qp* local_peer = nullptr;
  std::uint32_t direct_bytes = 0;
  bool local_peer_answered = false;  // it took an answer, and not only requests
  bool peer_destroyed = false;       // at a deadline: the peer was local, and exists no more
  Duration absent = 0;               // in which the worker couldn't run, all in all
  // A clock for what begins and ends within the turn, during which `now` doesn't change; nullptr:
  // not needed. Costs a clock read.
  Time (*clock)() = nullptr;

  // The worker's running time, in which a peer's silence is measured.
  [[nodiscard]] Time ran() const { return now - absent; }
};

}  // namespace uroce
