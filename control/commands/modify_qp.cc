// kModifyQp: checks a transition and its attributes, resolves the peer's Ethernet address, and
// passes the change to the queue pair's worker. Nothing changes unless all checks succeed.

#include <algorithm>
#include <cerrno>

#include "abi/verbs_mask.h"
#include "control/commands/command_table.h"
#include "control/ip/limits.h"
#include "control/ip/path_resolution.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/qp_states.h"
#include "control/sessions/xrc.h"
#include "dataplane/qp/recovery/rnr_timer.h"
#include "dataplane/wire/limits.h"
#include "dataplane/wire/path_mtu.h"
#include "dataplane/wire/psn.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control {
namespace {

using enum abi::VerbsMask;

constexpr std::uint32_t kRemoteAccess = kAccessRemoteWrite | kAccessRemoteRead |
                                        kAccessRemoteAtomic | kAccessFlushGlobal |
                                        kAccessFlushPersistent;
// A controlled Q_Key (IBTA vol. 1, 10.2.4.1).
constexpr std::uint32_t kControlledQkey = 0x8000'0000;

struct Bound {
  std::uint32_t bit;
  const char* name;
  std::uint32_t value;
  std::uint32_t limit;
};

Status check_bounds(const abi::QpAttributesRecord& a, std::uint32_t mask) {
  const Bound bounds[] = {
      {kVerbsMaxRdAtomic, "max_rd_atomic", a.max_rd_atomic, kReadsAndAtomicsMax},
      {kVerbsMaxDestRdAtomic, "max_dest_rd_atomic", a.max_dest_rd_atomic, kReadsAndAtomicsMax},
      {kVerbsMinRnrTimer, "min_rnr_timer", a.min_rnr_timer, kRnrTimer.size() - 1},
      {kVerbsTimeout, "timeout", a.timeout, kTimerCodeMax},
      {kVerbsRetryCnt, "retry_cnt", a.retry_cnt, kRetriesMax},
      {kVerbsRnrRetry, "rnr_retry", a.rnr_retry, kRetriesMax},
      {kVerbsDestQpn, "dest_qp_num", a.dest_qpn, kQpnMask},
      {kVerbsPkeyIndex, "pkey_index", a.pkey_index, kPkeysMax - 1},
  };
  for (const Bound& bound : bounds) {
    if ((mask & bound.bit) != 0 && bound.value > bound.limit) {
      return Error{EINVAL, std::string(bound.name) + " is at most " + std::to_string(bound.limit) +
                               ", not " + std::to_string(bound.value)};
    }
  }
  return ok();
}

Status check_attributes(const Session& session, const abi::QpAttributesRecord& a,
                        std::uint32_t mask) {
  const Device& device = *session.device();
  if (Status status = check_bounds(a, mask); !status) {
    return status;
  }
  // Linux requires CAP_NET_RAW, which can't be determined for the other end of a socket.
  if ((mask & kVerbsQkey) != 0 && (a.qkey & kControlledQkey) != 0 &&
      !is_administrator(session.peer())) {
    return Error{EPERM,
                 "Q_Keys from 0x80000000 on are controlled: only root and the daemon's own user "
                 "may give them to a queue pair"};
  }
  if ((mask & kVerbsPort) != 0 && a.port != 1) {
    return Error{EINVAL, "a device has one port, number 1, and no port " + std::to_string(a.port)};
  }
  if ((mask & kVerbsPathMtu) != 0) {
    const std::uint32_t active = device.active_mtu_code();
    if (!is_path_mtu_code(a.path_mtu)) {
      return Error{EINVAL, "path_mtu is a code from 1 (256 bytes) to 5 (4096 bytes), not " +
                               std::to_string(a.path_mtu)};
    }
    if (a.path_mtu > active) {
      return Error{EINVAL, "path_mtu " + std::to_string(mtu_bytes(a.path_mtu)) +
                               " is more than the " + std::to_string(mtu_bytes(active)) +
                               " that the port of " + device.name() +
                               " carries; start uroced with a larger --mtu"};
    }
  }
  if ((mask & kVerbsAltPath) != 0) {
    return Error{EINVAL, "RoCE has no alternate paths"};
  }
  if ((mask & kVerbsAv) != 0) {
    if (Status status = check_address(device, a.address); !status) {
      return status;
    }
    if ((mask & kVerbsPathMtu) != 0) {
      return check_path_mtu(device, a.address, a.path_mtu);
    }
  }
  return ok();
}

// The attributes converted for the datapath.
struct Change {
  QpAttributes attributes;
  std::uint32_t mask = 0;
};

Change change_of(QpType type, const Device& device, const abi::QpAttributesRecord& a,
                 std::uint32_t mask) {
  Change change;
  QpAttributes& to = change.attributes;
  const auto take = [&](std::uint32_t verbs_bit, std::uint32_t our_bit, auto& field, auto value) {
    if ((mask & verbs_bit) != 0) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(value);
      change.mask |= our_bit;
    }
  };
  take(kVerbsState, kQpMaskState, to.state, a.state);
  take(kVerbsPathMtu, kQpMaskPathMtu, to.path_mtu, mtu_bytes(a.path_mtu & 7U));
  take(kVerbsQkey, kQpMaskQkey, to.qkey, a.qkey);
  take(kVerbsRqPsn, kQpMaskRqPsn, to.rq_psn, a.rq_psn & kPsnMask);
  take(kVerbsSqPsn, kQpMaskSqPsn, to.sq_psn, a.sq_psn & kPsnMask);
  take(kVerbsDestQpn, kQpMaskDestQpn, to.dest_qpn, a.dest_qpn);
  take(kVerbsAccessFlags, kQpMaskAccess, to.access, a.access & kRemoteAccess);
  take(kVerbsPkeyIndex, kQpMaskPkeyIndex, to.pkey_index, a.pkey_index);
  take(kVerbsMaxRdAtomic, kQpMaskMaxRdAtomic, to.max_rd_atomic, a.max_rd_atomic);
  take(kVerbsMaxDestRdAtomic, kQpMaskMaxDestRdAtomic, to.max_dest_rd_atomic, a.max_dest_rd_atomic);
  take(kVerbsMinRnrTimer, kQpMaskMinRnrTimer, to.min_rnr_timer, a.min_rnr_timer);
  take(kVerbsTimeout, kQpMaskTimeout, to.timeout, a.timeout);
  take(kVerbsRetryCnt, kQpMaskRetryCnt, to.retry_cnt, a.retry_cnt);
  take(kVerbsRnrRetry, kQpMaskRnrRetry, to.rnr_retry, a.rnr_retry);
  if (type == QpType::kUd && (mask & kVerbsPort) != 0) {
    to.path_mtu = device.active_mtu_bytes();  // datagrams have no MTU of their own
    change.mask |= kQpMaskPathMtu;
  }
  to.sqd_async_notify = (mask & kVerbsSqdAsyncNotify) != 0 && a.sqd_async_notify != 0;
  return change;
}

// Stores the attributes that the program has set, for ibv_query_qp.
void remember(const abi::QpAttributesRecord& a, std::uint32_t mask,
              abi::QpAttributesRecord* known) {
  const auto take = [&](std::uint32_t bit, auto& field, const auto& value) {
    if ((mask & bit) != 0) {
      field = value;
    }
  };
  take(kVerbsPathMtu, known->path_mtu, a.path_mtu);
  take(kVerbsPathMigState, known->path_mig_state, a.path_mig_state);
  take(kVerbsQkey, known->qkey, a.qkey);
  take(kVerbsRqPsn, known->rq_psn, a.rq_psn & kPsnMask);
  take(kVerbsSqPsn, known->sq_psn, a.sq_psn & kPsnMask);
  take(kVerbsDestQpn, known->dest_qpn, a.dest_qpn);
  take(kVerbsAccessFlags, known->access, a.access);
  take(kVerbsPkeyIndex, known->pkey_index, a.pkey_index);
  take(kVerbsMaxRdAtomic, known->max_rd_atomic, a.max_rd_atomic);
  take(kVerbsMaxDestRdAtomic, known->max_dest_rd_atomic, a.max_dest_rd_atomic);
  take(kVerbsMinRnrTimer, known->min_rnr_timer, a.min_rnr_timer);
  take(kVerbsTimeout, known->timeout, a.timeout);
  take(kVerbsRetryCnt, known->retry_cnt, a.retry_cnt);
  take(kVerbsRnrRetry, known->rnr_retry, a.rnr_retry);
  take(kVerbsPort, known->port, a.port);
  take(kVerbsAv, known->address, a.address);
}

}  // namespace

Result<Outcome> modify_qp(Session& session, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ModifyQpRequest>();
  const auto found = session.qps.get(body.handle);
  if (!found) {
    return found.error();
  }
  QpObject& object = **found;
  Engine& engine = session.card().engine();
  Qp& qp = *object.qp;
  const QpConfig& config = qp.config();
  QpState now_in = QpState::kReset;
  engine.call(config.worker, [&](Worker&) { now_in = qp.state(); });
  const abi::QpAttributesRecord& wanted = body.attributes;
  if ((body.mask & kVerbsCurState) != 0 &&
      wanted.current_state != static_cast<std::uint32_t>(now_in)) {
    return Error{EINVAL, "the queue pair is in " + std::string(name_of(now_in)) +
                             ", not in the state that IBV_QP_CUR_STATE says"};
  }
  if ((body.mask & kVerbsState) != 0 && wanted.state > static_cast<std::uint32_t>(QpState::kErr)) {
    return Error{EINVAL, "there is no queue pair state " + std::to_string(wanted.state)};
  }
  const QpState next = (body.mask & kVerbsState) != 0 ? static_cast<QpState>(wanted.state) : now_in;
  if (Status status = check_transition(config.type, now_in, next, body.mask); !status) {
    return status.error();
  }
  if (Status status = check_attributes(session, wanted, body.mask); !status) {
    return status.error();
  }
  Change change = change_of(config.type, *session.device(), wanted, body.mask);
  if ((body.mask & kVerbsAv) != 0) {
    const std::uint32_t remote_qpn =
        (body.mask & kVerbsDestQpn) != 0 ? wanted.dest_qpn : object.attributes.dest_qpn;
    const auto path = make_path(*session.device(), wanted.address, config.qpn, remote_qpn,
                                session.card().now(), session.account()->user());
    if (!path) {
      return path.error();
    }
    if (!*path) {
      return Outcome::kWait;
    }
    change.attributes.path = **path;
    change.mask |= kQpMaskPath;
  }
  bool as_checked = false;
  engine.call(config.worker, [&](Worker& worker) {
    if (next == QpState::kErr) {
      worker.send_posted(qp);  // rdma_disconnect() makes such a change
    }
    as_checked = worker.modify_qp_in(now_in, qp, change.attributes, change.mask);
  });
  if (!as_checked) {
    return Error{EINVAL, "the queue pair has left " + std::string(name_of(now_in)) +
                             " meanwhile, because something failed"};
  }
  const auto know = [&](Session&, QpObject& known) {
    remember(wanted, body.mask, &known.attributes);
    if ((change.mask & kQpMaskPath) != 0) {
      known.path = change.attributes.path;
    } else if (next == QpState::kReset) {
      known.path.reset();
    }
  };
  if (object.target) {
    for_each_handle(object, know);
  } else {
    know(session, object);
  }
  return Outcome::kReply;
}

}  // namespace uroce::control
