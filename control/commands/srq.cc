// Commands about shared receive queues.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "abi/cq_records.h"
#include "control/commands/command_table.h"
#include "control/commands/destroy.h"
#include "control/commands/resize.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"
#include "control/sessions/xrc.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kSrqMaxWr = 1U << 0U;  // values as in enum ibv_srq_attr_mask
constexpr std::uint32_t kSrqLimit = 1U << 1U;
constexpr std::uint32_t kTypeBasic = 0;  // as in enum ibv_srq_type
constexpr std::uint32_t kTypeXrc = 1;

Status check_size(std::uint32_t max_wr) {
  if (max_wr == 0 || max_wr > kWorkRequestsMax) {
    return Error{EINVAL, "a shared receive queue has 1 to " + std::to_string(kWorkRequestsMax) +
                             " work requests, not " + std::to_string(max_wr)};
  }
  return ok();
}

Status check(const abi::CreateSrqRequest& body) {
  if (body.type != kTypeBasic && body.type != kTypeXrc) {
    return Error{EOPNOTSUPP, "shared receive queues are of type basic or XRC"};
  }
  if (Status status = check_size(body.max_wr); !status) {
    return status;
  }
  if (body.max_sge > kSgeMax) {
    return Error{EINVAL, "a work request has at most " + std::to_string(kSgeMax) + " SGEs, not " +
                             std::to_string(body.max_sge)};
  }
  return ok();
}

// The additional members of a queue of type XRC.
struct XrcParts {
  Xrcd* xrcd = nullptr;
  CqObject* cq = nullptr;
};

Result<XrcParts> find_xrc_parts(const Session& session, const abi::CreateSrqRequest& body) {
  if (body.type != kTypeXrc) {
    return XrcParts{};
  }
  const auto xrcd = session.xrcds.get(body.xrcd);
  if (!xrcd) {
    return xrcd.error();
  }
  const auto cq = session.cqs.get(body.cq);
  if (!cq) {
    return cq.error();
  }
  return XrcParts{.xrcd = *xrcd, .cq = *cq};
}

void use(const XrcParts& parts, SrqObject& srq) {
  if (parts.xrcd == nullptr) {
    return;
  }
  srq.xrcd = parts.xrcd;
  srq.cq = parts.cq;
  ++parts.xrcd->users;
  ++parts.cq->users;
}

// Registers an XRC queue with its domain. If that fails half-way, the queue is removed, also from
// workers that know it already; if even that fails, it is removed with the session.
void enter(Session& session, std::uint32_t handle) {
  const SrqObject& srq = *session.srqs.find(handle);
  if (srq.xrcd == nullptr) {
    return;
  }
  try {
    enter_xrc_domain(session.card().engine(), srq);
  } catch (const std::bad_alloc&) {
    remove_srq(session, handle);
    throw;
  }
}

}  // namespace

Result<Outcome> create_srq(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::CreateSrqRequest>();
  if (Status status = check(body); !status) {
    return status.error();
  }
  const auto pd = session.pds.get(body.pd);
  if (!pd) {
    return pd.error();
  }
  const auto xrc = find_xrc_parts(session, body);
  if (!xrc) {
    return xrc.error();
  }
  auto charge = session.account()->charge(Limit::kSrqs);
  if (!charge) {
    return charge.error();
  }
  Card& card = session.card();
  abi::CreateSrqReply answer{};
  answer.max_wr = std::bit_ceil(body.max_wr);
  answer.max_sge = std::max(body.max_sge, 1U);
  answer.ring = {.control_offset = 0,
                 .entries_offset = sizeof(abi::RingControl),
                 .entries = answer.max_wr,
                 .stride = abi::recv_stride(answer.max_sge)};
  auto memory = session.share(
      "uroce-srq", sizeof(abi::RingControl) + std::size_t{answer.max_wr} * answer.ring.stride);
  if (!memory) {
    return memory.error();
  }
  auto srq = std::make_unique<SrqObject>();
  srq->id = card.srqns().take({&session, 0});
  if (!srq->id) {
    return Error{ENOMEM, "all " + std::to_string(kSrqsMax) + " shared receive queues are taken"};
  }
  srq->charge = std::move(*charge);
  srq->cookie = body.cookie;
  srq->pd = *pd;
  srq->max_wr = answer.max_wr;
  srq->max_sge = answer.max_sge;
  srq->memory = std::move(*memory);
  srq->queue = std::make_unique<ReceiveQueue>(
      ReceiveQueue::Config{.handle = srq->id.number(),
                           .control = reinterpret_cast<abi::RingControl*>(srq->memory.data()),
                           .entries = srq->memory.data() + answer.ring.entries_offset,
                           .entry_count = answer.ring.entries,
                           .stride = answer.ring.stride,
                           .sge_max = answer.max_sge,
                           .users = card.engine().workers() > 1 ? ReceiveQueue::Users::kWorkers
                                                                : ReceiveQueue::Users::kOneWorker});
  answer.srqn = srq->id.number();
  answer.memory_length = srq->memory.length();
  reply->descriptors.push_back(srq->memory.take_descriptor());
  session.srqs.make_room();
  use(*xrc, *srq);
  ++(*pd)->users;
  answer.handle = session.srqs.add(std::move(srq));
  card.srqns().set_owner(answer.srqn, {&session, answer.handle});
  enter(session, answer.handle);
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> modify_srq(Session& session, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ModifySrqRequest>();
  const auto srq = session.srqs.get(body.handle);
  if (!srq) {
    return srq.error();
  }
  if ((body.mask & kSrqMaxWr) != 0) {
    return Error{EOPNOTSUPP, "the size of a shared receive queue is changed by another command"};
  }
  if ((body.mask & kSrqLimit) != 0) {
    if (body.limit > (*srq)->max_wr) {
      return Error{EINVAL, "the limit " + std::to_string(body.limit) + " is beyond the queue's " +
                               std::to_string((*srq)->max_wr) + " work requests"};
    }
    // Runs between two turns of the only worker; with several workers the queue's lock excludes the
    // others.
    bool reached = false;
    session.card().engine().call(0, [&](Worker&) { reached = (*srq)->queue->arm(body.limit); });
    if (reached) {
      session.announce(static_cast<std::uint32_t>(AsyncEvent::kSrqLimitReached), body.handle,
                       (*srq)->cookie);
    }
  }
  return Outcome::kReply;
}

namespace {

Result<Outcome> prepare_resize(Session& session, SrqObject& srq, std::uint32_t wanted,
                               Reply* reply) {
  if (Status status = check_size(wanted); !status) {
    return status.error();
  }
  const std::uint32_t max_wr = std::bit_ceil(wanted);
  auto memory = session.share("uroce-srq", std::size_t{max_wr} * abi::recv_stride(srq.max_sge));
  if (!memory) {
    return memory.error();
  }
  srq.next_entries = std::move(*memory);
  srq.next_max_wr = max_wr;
  abi::ResizeSrqReply answer{};
  answer.max_wr = max_wr;
  answer.memory_length = srq.next_entries.length();
  reply->descriptors.push_back(srq.next_entries.take_descriptor());
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace

Result<Outcome> resize_srq(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::ResizeSrqRequest>();
  const auto found = session.srqs.get(body.handle);
  if (!found) {
    return found.error();
  }
  SrqObject& srq = **found;
  if (body.commit == 0) {
    return prepare_resize(session, srq, body.max_wr, reply);
  }
  if (srq.next_max_wr == 0) {
    return Error{EINVAL, "resize SRQ: no new ring was prepared"};
  }
  const std::uint32_t max_wr = std::exchange(srq.next_max_wr, 0);
  auto memory = std::move(srq.next_entries);
  // As in modify_srq().
  const Status status = resize_in_steps(session.card().engine(), [&](RingResize* move) {
    return srq.queue->resize(memory.data(), max_wr, move);
  });
  if (!status) {
    return status.error();
  }
  srq.entries = std::move(memory);
  srq.max_wr = max_wr;
  abi::ResizeSrqReply answer{};
  answer.max_wr = max_wr;
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> query_srq(Session& session, Request& request, Reply* reply) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto srq = session.srqs.get(handle);
  if (!srq) {
    return srq.error();
  }
  abi::QuerySrqReply answer{.header = {},
                            .max_wr = (*srq)->max_wr,
                            .max_sge = (*srq)->max_sge,
                            .limit = 0,
                            .reserved = 0};
  session.card().engine().call(0, [&](Worker&) { answer.limit = (*srq)->queue->limit(); });
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> destroy_srq(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.srqs, request, remove_srq);
}

}  // namespace uroce::control
