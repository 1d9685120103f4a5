// Commands that create, query and destroy queue pairs and report their rings' location. Modifying:
// modify_qp.cc.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "abi/ring_records.h"
#include "base/memory/huge_slabs.h"
#include "control/commands/command_table.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"

namespace uroce::control {
namespace {

// The objects that a queue pair refers to.
struct Parts {
  ProtectionDomain* pd = nullptr;
  CqObject* send_cq = nullptr;
  CqObject* recv_cq = nullptr;
  SrqObject* srq = nullptr;
};

Status check_most(const char* what, std::uint32_t value, std::uint32_t limit) {
  if (value > limit) {
    return Error{EINVAL, std::string(what) + " is at most " + std::to_string(limit) + ", not " +
                             std::to_string(value)};
  }
  return ok();
}

Status check_caps(const abi::CreateQpRequest& body) {
  const auto type = static_cast<QpType>(body.type);
  if (type != QpType::kRc && type != QpType::kUc && type != QpType::kUd &&
      type != QpType::kXrcSend) {
    return Error{EOPNOTSUPP, "this uroced makes queue pairs of types RC, UC, UD and XRC only"};
  }
  for (const Status& status : {check_most("max_send_wr", body.max_send_wr, kWorkRequestsMax),
                               check_most("max_recv_wr", body.max_recv_wr, kWorkRequestsMax),
                               check_most("max_send_sge", body.max_send_sge, kSgeMax),
                               check_most("max_recv_sge", body.max_recv_sge, kSgeMax),
                               check_most("max_inline_data", body.max_inline, kInlineMax)}) {
    if (!status) {
      return status;
    }
  }
  return ok();
}

Result<Parts> find_parts(const Session& session, const abi::CreateQpRequest& body) {
  const auto pd = session.pds.get(body.pd);
  const auto send_cq = session.cqs.get(body.send_cq);
  const auto recv_cq = session.cqs.get(body.recv_cq);
  const auto srq = body.srq != 0 ? session.srqs.get(body.srq - 1) : Result<SrqObject*>(nullptr);
  if (!pd) {
    return pd.error();
  }
  if (!send_cq || !recv_cq) {
    return send_cq ? recv_cq.error() : send_cq.error();
  }
  if (!srq) {
    return srq.error();
  }
  if (*srq != nullptr &&
      ((*srq)->xrcd != nullptr || static_cast<QpType>(body.type) == QpType::kXrcSend)) {
    return Error{EINVAL,
                 "XRC queue pairs find shared receive queues of type XRC by the peer's "
                 "word; others can't use them"};
  }
  return Parts{.pd = *pd, .send_cq = *send_cq, .recv_cq = *recv_cq, .srq = *srq};
}

// The granted sizes, and the bytes of both rings' entries.
struct Granted {
  abi::CreateQpReply answer{};
  std::size_t entries = 0;
};

static_assert(kInlineMax <= UINT16_MAX, "abi::SendWr::payload_count");

Granted grant(const abi::CreateQpRequest& body, bool own_receive_queue) {
  Granted granted;
  abi::CreateQpReply& answer = granted.answer;
  answer.max_send_wr = std::bit_ceil(std::max(body.max_send_wr, 1U));
  answer.max_send_sge = std::max(body.max_send_sge, 1U);
  // Inline data for which the stride has room anyway is granted: rdma_xclient sends 16 bytes inline
  // without having requested any, which works on real cards.
  answer.send.entries = answer.max_send_wr;
  answer.send.stride = abi::send_stride(answer.max_send_sge, body.max_inline);
  answer.max_inline = std::min(
      answer.send.stride - static_cast<std::uint32_t>(abi::kSendPayloadOffset), kInlineMax);
  granted.entries = std::size_t{answer.send.entries} * answer.send.stride;
  if (own_receive_queue) {
    answer.max_recv_wr = std::bit_ceil(std::max(body.max_recv_wr, 1U));
    answer.max_recv_sge = std::max(body.max_recv_sge, 1U);
    answer.recv.entries = answer.max_recv_wr;
    answer.recv.stride = abi::recv_stride(answer.max_recv_sge);
    granted.entries += std::size_t{answer.recv.entries} * answer.recv.stride;
  }
  return granted;
}

// The layout of the rings in their memory: both controls, the send queue's entries, the receive
// queue's.
void place(const RingArena::Rings& rings, abi::CreateQpReply* answer) {
  abi::RingLayout& send = answer->send;
  answer->memory = rings.memory();
  send.control_offset = rings.controls();
  send.entries_offset = rings.entries();
  if (answer->recv.entries != 0) {
    answer->recv.control_offset = send.control_offset + sizeof(abi::RingControl);
    answer->recv.entries_offset = send.entries_offset + std::uint64_t{send.entries} * send.stride;
  }
}

QpConfig config_of(const abi::CreateQpRequest& body, const abi::CreateQpReply& answer,
                   const Parts& parts, QpObject& object, Session& session) {
  QpConfig config;
  config.qpn = answer.qpn;
  config.type = static_cast<QpType>(body.type);
  config.pd = parts.pd->id;
  config.port = static_cast<std::uint16_t>(session.device()->index());
  config.worker = answer.worker;
  config.doorbell_slot = answer.doorbell_slot;
  config.owner = session.id();
  config.user = session.account()->number();
  config.signal_all = body.signal_all != 0;
  config.send_sge_max = answer.max_send_sge;
  config.inline_max = answer.max_inline;
  std::byte* const memory = object.rings.memory_data();
  config.send_control = reinterpret_cast<abi::RingControl*>(memory + answer.send.control_offset);
  config.send_entries = memory + answer.send.entries_offset;
  config.send_entry_count = answer.send.entries;
  config.send_stride = answer.send.stride;
  config.receive_queue = parts.srq != nullptr ? parts.srq->queue.get() : object.receive_queue.get();
  config.receive_queue_shared = parts.srq != nullptr;
  config.send_cq = parts.send_cq->queue.get();
  config.recv_cq = parts.recv_cq->queue.get();
  config.addresses = &session.addresses().table();
  config.congestion = &session.card().congestion();
  config.measures_latency = session.card().measures_latency();
  config.shares_network =
      config.congestion->mode != CongestionMode::kNone && !session.device()->loops_back();
  return config;
}

void use(const Parts& parts, QpObject* object) {
  object->pd = parts.pd;
  object->send_cq = parts.send_cq;
  object->recv_cq = parts.recv_cq;
  object->srq = parts.srq;
  ++parts.pd->users;
  ++parts.send_cq->users;
  ++parts.recv_cq->users;
  if (parts.srq != nullptr) {
    ++parts.srq->users;
  }
}

// Registers the queue pair with its worker. From here on packets and doorbells reach it.
void attach(Session& session, Qp& qp) {
  const QpConfig& config = qp.config();
  SessionDoorbells& bells = session.bells(config.worker);
  session.card().engine().call(config.worker, [&](Worker& worker) {
    if (bells.slots.size() <= config.doorbell_slot) {
      bells.slots.resize(config.doorbell_slot + 1U);
    }
    bells.slots[config.doorbell_slot] = &qp;
    worker.add_qp(qp);
  });
}

}  // namespace

Result<Outcome> create_qp(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::CreateQpRequest>();
  if (static_cast<QpType>(body.type) == QpType::kXrcRecv) {
    return create_xrc_target(session, body, reply);
  }
  if (Status status = check_caps(body); !status) {
    return status.error();
  }
  const auto parts = find_parts(session, body);
  if (!parts) {
    return parts.error();
  }
  const bool receives_itself =
      parts->srq == nullptr && static_cast<QpType>(body.type) != QpType::kXrcSend;
  Granted granted = grant(body, receives_itself);
  abi::CreateQpReply& answer = granted.answer;
  const std::size_t copies = std::size_t{answer.send.entries} *
                             (sizeof(SendEntry) + answer.send.stride - abi::kSendPayloadOffset);
  auto charge = session.account()->charge({{Limit::kQps}, {Limit::kQueueMemory, copies}});
  if (!charge) {
    return charge.error();
  }
  auto rings = session.rings().take(granted.entries);
  if (!rings) {
    return rings.error();
  }
  place(*rings, &answer);
  Card& card = session.card();
  const std::uint32_t chosen = session.take_chosen_qpn();
  auto object = std::make_unique<QpObject>();
  object->slot = session.slots().take();
  object->qpn = card.qpns().take({&session, 0}, chosen);
  if (!object->slot || !object->qpn) {
    if (object->slot && chosen != 0) {
      return Error{EBUSY, "queue pair number " + std::to_string(chosen) + " can't be had"};
    }
    return Error{ENOMEM, "all " + std::to_string(kQpsMax) + " queue pairs are taken"};
  }
  answer.qpn = object->qpn.number();
  answer.doorbell_slot = object->slot.number();
  answer.worker = card.engine().owner_of(answer.qpn);
  object->charge = std::move(*charge);
  object->cookie = body.cookie;
  object->rings = std::move(*rings);
  if (receives_itself) {
    std::byte* const memory = object->rings.memory_data();
    object->receive_queue = std::make_unique<ReceiveQueue>(ReceiveQueue::Config{
        .handle = answer.qpn,
        .control = reinterpret_cast<abi::RingControl*>(memory + answer.recv.control_offset),
        .entries = memory + answer.recv.entries_offset,
        .entry_count = answer.recv.entries,
        .stride = answer.recv.stride,
        .sge_max = answer.max_recv_sge,
        .users = ReceiveQueue::Users::kOneQp});
  }
  object->qp = std::allocate_shared<Qp>(HugeSlabAllocator<Qp>(),
                                        config_of(body, answer, *parts, *object, session));
  abi::QpAttributesRecord& record = object->attributes;
  record.max_send_wr = answer.max_send_wr;
  record.max_recv_wr = answer.max_recv_wr;
  record.max_send_sge = answer.max_send_sge;
  record.max_recv_sge = answer.max_recv_sge;
  record.max_inline = answer.max_inline;
  session.qps.make_room();
  attach(session, *object->qp);
  use(*parts, object.get());
  answer.handle = session.qps.add(std::move(object));
  card.qpns().set_owner(answer.qpn, {&session, answer.handle});
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> map_rings(Session& session, Request& request, Reply* reply) {
  auto shared = session.rings().share(request.as<abi::HandleRequest>().handle);
  if (!shared) {
    return shared.error();
  }
  reply->descriptors.push_back(std::move(shared->descriptor));
  reply->set(abi::MapRingsReply{
      .header = {}, .length = shared->length, .shared = shared->packed ? 1U : 0U});
  return Outcome::kReply;
}

Result<Outcome> query_qp(Session& session, Request& request, Reply* reply) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto object = session.qps.get(handle);
  if (!object) {
    return object.error();
  }
  abi::QueryQpReply answer{.header = {}, .attributes = (*object)->attributes};
  const Qp& qp = *(*object)->qp;
  // Values that change by themselves are read from the worker; the rest is what the program set.
  session.card().engine().call(qp.config().worker, [&](Worker&) {
    abi::QpAttributesRecord& live = answer.attributes;
    live.state = static_cast<std::uint32_t>(qp.state());
    live.current_state = live.state;
    live.rq_psn = qp.expected_psn();
    live.sq_psn = qp.send_psn();
    live.sq_draining = qp.draining() ? 1 : 0;
  });
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> destroy_qp(Session& session, Request& request, Reply* /*reply*/) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto object = session.qps.get(handle);
  if (!object) {
    return object.error();
  }
  if (!(*object)->groups.empty()) {
    return Error{EBUSY, "queue pair " + std::to_string(handle) + " is still in " +
                            std::to_string((*object)->groups.size()) + " multicast groups"};
  }
  remove_qp(session, handle);
  return Outcome::kReply;
}

}  // namespace uroce::control
