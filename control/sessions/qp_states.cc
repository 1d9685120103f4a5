#include "control/sessions/qp_states.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "abi/names.h"
#include "abi/verbs_mask.h"

namespace uroce::control {
namespace {

using enum abi::VerbsMask;

constexpr std::uint32_t kPkeyPortAccess = kVerbsPkeyIndex | kVerbsPort | kVerbsAccessFlags;
constexpr std::uint32_t kPkeyPortQkey = kVerbsPkeyIndex | kVerbsPort | kVerbsQkey;
constexpr std::uint32_t kConnect = kVerbsAv | kVerbsPathMtu | kVerbsDestQpn | kVerbsRqPsn;
constexpr std::uint32_t kAnswer = kVerbsMaxDestRdAtomic | kVerbsMinRnrTimer;
constexpr std::uint32_t kAltAccessPkey = kVerbsAltPath | kVerbsAccessFlags | kVerbsPkeyIndex;
constexpr std::uint32_t kRetry = kVerbsTimeout | kVerbsRetryCnt | kVerbsRnrRetry;
constexpr std::uint32_t kRun =
    kVerbsCurState | kVerbsAltPath | kVerbsAccessFlags | kVerbsPathMigState;
constexpr std::uint32_t kDrained = kVerbsPort | kVerbsAv | kVerbsTimeout | kVerbsAltPath |
                                   kVerbsAccessFlags | kVerbsPkeyIndex | kVerbsMinRnrTimer |
                                   kVerbsPathMigState;

enum Column : std::uint8_t { kRc, kUc, kUd, kXrcSend, kXrcRecv, kColumns };

struct Row {
  QpState from;
  QpState to;
  TransitionRule rules[kColumns];
};

// Transitions to RESET from any state, and to ERR from any state except RESET, take no attributes:
// not in the table.
// Columns: RC, UC, UD, XRC send, XRC receive. Both halves of XRC take RC's attributes of the other
// half as well, without effect: perftest sets them all.
using enum QpState;
constexpr Row kRows[] = {
    {kReset,
     kInit,
     {{kPkeyPortAccess, 0},
      {kPkeyPortAccess, 0},
      {kPkeyPortQkey, 0},
      {kPkeyPortAccess, 0},
      {kPkeyPortAccess, 0}}},
    {kInit,
     kInit,
     {{0, kPkeyPortAccess},
      {0, kPkeyPortAccess},
      {0, kPkeyPortQkey},
      {0, kPkeyPortAccess},
      {0, kPkeyPortAccess}}},
    {kInit,
     kRtr,
     {{kConnect | kAnswer, kAltAccessPkey},
      {kConnect, kAltAccessPkey},
      {0, kVerbsPkeyIndex | kVerbsQkey},
      {kConnect, kAltAccessPkey | kAnswer},
      {kConnect | kAnswer, kAltAccessPkey}}},
    {kRtr,
     kRts,
     {{kRetry | kVerbsSqPsn | kVerbsMaxRdAtomic, kRun | kVerbsMinRnrTimer},
      {kVerbsSqPsn, kRun},
      {kVerbsSqPsn, kVerbsCurState | kVerbsQkey},
      {kRetry | kVerbsSqPsn | kVerbsMaxRdAtomic, kRun},
      {kVerbsTimeout | kVerbsSqPsn,
       kRun | kVerbsMinRnrTimer | kVerbsRetryCnt | kVerbsRnrRetry | kVerbsMaxRdAtomic}}},
    {kRts,
     kRts,
     {{0, kRun | kVerbsMinRnrTimer},
      {0, kRun},
      {0, kVerbsCurState | kVerbsQkey},
      {0, kRun},
      {0, kRun | kVerbsMinRnrTimer}}},
    {kRts,
     kSqd,
     {{0, kVerbsSqdAsyncNotify},
      {0, kVerbsSqdAsyncNotify},
      {0, kVerbsSqdAsyncNotify},
      {0, kVerbsSqdAsyncNotify},
      {0, kVerbsSqdAsyncNotify}}},
    {kSqd,
     kRts,
     {{0, kRun | kVerbsMinRnrTimer},
      {0, kRun},
      {0, kVerbsCurState | kVerbsQkey},
      {0, kRun},
      {0, kRun | kVerbsMinRnrTimer}}},
    {kSqd,
     kSqd,
     {{0, kDrained | kVerbsRetryCnt | kVerbsRnrRetry | kVerbsMaxRdAtomic | kVerbsMaxDestRdAtomic},
      {0, kVerbsAv | kAltAccessPkey | kVerbsPathMigState},
      {0, kVerbsPkeyIndex | kVerbsQkey},
      {0, kDrained | kVerbsRetryCnt | kVerbsRnrRetry | kVerbsMaxRdAtomic},
      {0, kDrained | kVerbsMaxDestRdAtomic}}},
    // Only unreliable queue pairs and an RC send queue's local errors lead to SQE; the transition
    // back exists for all, as in Linux.
    {kSqe,
     kRts,
     {{0, 0},
      {0, kVerbsCurState | kVerbsAccessFlags},
      {0, kVerbsCurState | kVerbsQkey},
      {0, 0},
      {0, 0}}},
};

constexpr std::pair<std::uint32_t, const char*> kAttributeNames[] = {
    {kVerbsState, "IBV_QP_STATE"},
    {kVerbsCurState, "IBV_QP_CUR_STATE"},
    {kVerbsSqdAsyncNotify, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
    {kVerbsAccessFlags, "IBV_QP_ACCESS_FLAGS"},
    {kVerbsPkeyIndex, "IBV_QP_PKEY_INDEX"},
    {kVerbsPort, "IBV_QP_PORT"},
    {kVerbsQkey, "IBV_QP_QKEY"},
    {kVerbsAv, "IBV_QP_AV"},
    {kVerbsPathMtu, "IBV_QP_PATH_MTU"},
    {kVerbsTimeout, "IBV_QP_TIMEOUT"},
    {kVerbsRetryCnt, "IBV_QP_RETRY_CNT"},
    {kVerbsRnrRetry, "IBV_QP_RNR_RETRY"},
    {kVerbsRqPsn, "IBV_QP_RQ_PSN"},
    {kVerbsMaxRdAtomic, "IBV_QP_MAX_QP_RD_ATOMIC"},
    {kVerbsAltPath, "IBV_QP_ALT_PATH"},
    {kVerbsMinRnrTimer, "IBV_QP_MIN_RNR_TIMER"},
    {kVerbsSqPsn, "IBV_QP_SQ_PSN"},
    {kVerbsMaxDestRdAtomic, "IBV_QP_MAX_DEST_RD_ATOMIC"},
    {kVerbsPathMigState, "IBV_QP_PATH_MIG_STATE"},
    {kVerbsCap, "IBV_QP_CAP"},
    {kVerbsDestQpn, "IBV_QP_DEST_QPN"},
    {kVerbsRateLimit, "IBV_QP_RATE_LIMIT"},
};

Column column_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return kRc;
    case QpType::kUc:
      return kUc;
    case QpType::kUd:
      return kUd;
    case QpType::kXrcSend:
      return kXrcSend;
    case QpType::kXrcRecv:
      return kXrcRecv;
  }
  return kColumns;
}

std::string names_of(std::uint32_t mask) {
  std::string names;
  for (const auto& [bit, name] : kAttributeNames) {
    if ((mask & bit) != 0) {
      names += (names.empty() ? "" : ", ") + std::string(name);
      mask &= ~bit;
    }
  }
  if (mask != 0) {
    names += (names.empty() ? "" : ", ") + std::string("unknown bits ") + std::to_string(mask);
  }
  return names;
}

}  // namespace

const char* name_of(QpState state) {
  const auto index = static_cast<std::size_t>(state);
  return index < abi::kStateNames.size() ? abi::kStateNames[index].data() : "an unknown state";
}

const char* name_of(QpType type) {
  constexpr const char* kNames[] = {"RC", "UC", "UD", "XRC send", "XRC receive"};
  const Column column = column_of(type);
  return column < kColumns ? kNames[column] : "unknown";
}

const TransitionRule* transition_rule(QpType type, QpState from, QpState to) {
  static constexpr TransitionRule kNothing{};
  const Column column = column_of(type);
  if (column == kColumns || from > kErr || to > kErr) {
    return nullptr;
  }
  if (to == kReset || (to == kErr && from != kReset)) {
    return &kNothing;
  }
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to) {
      return &row.rules[column];
    }
  }
  return nullptr;
}

Status check_transition(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const std::string step =
      std::string(name_of(type)) + " queue pair from " + name_of(from) + " to " + name_of(to);
  const TransitionRule* rule = transition_rule(type, from, to);
  if (rule == nullptr) {
    return Error{EINVAL, "no transition takes an " + step};
  }
  if (const std::uint32_t missing = rule->required & ~mask; missing != 0) {
    return Error{EINVAL, "modifying an " + step + " requires " + names_of(missing)};
  }
  const std::uint32_t allowed = rule->required | rule->optional | kVerbsState;
  if (const std::uint32_t forbidden = mask & ~allowed; forbidden != 0) {
    return Error{EINVAL, "modifying an " + step + " doesn't allow " + names_of(forbidden)};
  }
  return ok();
}

}  // namespace uroce::control
