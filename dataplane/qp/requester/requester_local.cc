// Local requests, which send nothing: windows are bound, keys invalidated. Each waits until
// everything before it has completed, and later ones wait for it (IBTA vol. 1, 10.6.5.1 and
// 10.8.3.3): so it is the oldest when it is executed, takes no PSN, and is never executed twice.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {
namespace {

Failure failure_of(const SendEntry& entry, WindowChange change) {
  if (entry.opcode == abi::WrOpcode::kLocalInv) {
    return Failure::kInvalidateLocal;
  }
  switch (change) {
    case WindowChange::kWrongPd:
      return Failure::kBindPd;
    case WindowChange::kNoRegion:
      return Failure::kBindRegion;
    case WindowChange::kNoRight:
      return Failure::kBindRight;
    case WindowChange::kOutOfRange:
      return Failure::kBindRange;
    default:
      return Failure::kBindWindow;
  }
}

}  // namespace

WindowChange Requester::change_window(const SendEntry& entry, const KeyUser& user,
                                      const Turn& turn) {
  if (entry.opcode == abi::WrOpcode::kLocalInv) {
    return turn.keys.invalidate(entry.immediate, user, false);
  }
  const WindowBind bind{.new_key = entry.immediate,
                        .lkey = entry.bind.lkey,
                        .address = entry.remote_address,
                        .length = entry.bind.length,
                        .access = entry.bind.access};
  return turn.keys.bind_window(entry.rkey, bind, user);
}

// The local operation at the cursor, which is the oldest request. False while a worker may still be
// in the middle of an access by the key that it invalidated: only then is it complete.
bool Requester::execute_local(Turn& turn) {
  const SendEntry& entry = queue_.entry(cursor_index_);
  if (local_grace_ == kNotExecuted) {
    const WindowChange change =
        change_window(entry, {.pd = qp_.config_.pd, .qpn = qp_.config_.qpn}, turn);
    if (change != WindowChange::kDone) {
      // 11.6.2: what newer editions call a memory management operation error.
      fail_oldest(abi::WcStatus::kMwBindErr, failure_of(entry, change), turn);
      return false;
    }
    local_grace_ = turn.keys.grace_begin();
  }
  if (!turn.keys.grace_over(local_grace_)) {
    return false;
  }
  ++cursor_index_;
  retire_oldest(turn);
  queue_.publish();
  announce_drained(turn);
  return true;
}

}  // namespace uroce
