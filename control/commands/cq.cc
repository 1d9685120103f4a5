// Commands about completion queues and their channels.

#include <bit>
#include <cerrno>
#include <utility>

#include "abi/cq_records.h"
#include "base/sockets/event_socket.h"
#include "control/commands/command_table.h"
#include "control/commands/destroy.h"
#include "control/commands/resize.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"

namespace uroce::control {

Result<Outcome> create_channel(Session& session, Request& /*request*/, Reply* reply) {
  auto charge = session.account()->charge({{Limit::kChannels}, {Limit::kDescriptors}});
  if (!charge) {
    return charge.error();
  }
  auto socket = make_event_socket("a completion channel");
  if (!socket) {
    return socket.error();
  }
  auto channel = std::make_unique<Channel>();
  channel->write_end = std::move(socket->write_end);
  channel->charge = std::move(*charge);
  reply->set_handle(session.channels.add(std::move(channel)));
  reply->descriptors.push_back(std::move(socket->read_end));
  return Outcome::kReply;
}

Result<Outcome> destroy_channel(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.channels, request, remove_channel);
}

Result<Outcome> create_cq(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::CreateCqRequest>();
  if (body.entries == 0 || body.entries > kCqesMax) {
    return Error{EINVAL, "a completion queue has 1 to " + std::to_string(kCqesMax) +
                             " entries, not " + std::to_string(body.entries)};
  }
  // A vector selects the processor for a card's interrupts. We have no interrupts, so which one it
  // is of those that we report doesn't matter.
  const std::uint32_t vectors = session.card().engine().workers();
  if (body.vector >= vectors) {
    return Error{EINVAL, "completion vector " + std::to_string(body.vector) + " is beyond the " +
                             std::to_string(vectors) + " there are"};
  }
  if ((body.flags & ~std::uint32_t{abi::kCqIgnoreOverrun}) != 0) {
    return Error{EOPNOTSUPP, "a completion queue's flag that this uroced doesn't know"};
  }
  Channel* channel = nullptr;
  if (body.channel != 0) {
    const auto found = session.channels.get(body.channel - 1);
    if (!found) {
      return found.error();
    }
    channel = *found;
  }
  auto charge = session.account()->charge(Limit::kCqs);
  if (!charge) {
    return charge.error();
  }
  const std::uint32_t entries = std::bit_ceil(body.entries);
  constexpr std::size_t kEntriesOffset = sizeof(abi::CqControl);
  auto memory = session.share("uroce-cq", kEntriesOffset + std::size_t{entries} * sizeof(abi::Cqe));
  if (!memory) {
    return memory.error();
  }
  Card& card = session.card();
  auto cq = std::make_unique<CqObject>();
  cq->id = card.cqns().take({&session, 0});
  if (!cq->id) {
    return Error{ENOMEM, "all " + std::to_string(kCqsMax) + " completion queues are taken"};
  }
  cq->charge = std::move(*charge);
  cq->cookie = body.cookie;
  cq->channel = channel;
  cq->entry_count = entries;
  cq->memory = std::move(*memory);
  cq->queue = std::make_unique<CompletionQueue>(CompletionQueue::Config{
      .handle = cq->id.number(),
      .control = reinterpret_cast<abi::CqControl*>(cq->memory.data()),
      .entries = reinterpret_cast<abi::Cqe*>(cq->memory.data() + kEntriesOffset),
      .entry_count = entries,
      .event_descriptor = channel != nullptr ? channel->write_end.get() : -1,
      .event_cookie = body.cookie,
      .shared = card.engine().workers() > 1});
  if ((body.flags & abi::kCqIgnoreOverrun) != 0) {
    cq->queue->ignore_overrun();
  }
  abi::CreateCqReply answer{};
  answer.entries = entries;
  answer.control_offset = 0;
  answer.entries_offset = kEntriesOffset;
  answer.memory_length = cq->memory.length();
  reply->descriptors.push_back(cq->memory.take_descriptor());
  const std::uint32_t id = cq->id.number();
  answer.handle = session.cqs.add(std::move(cq));
  if (channel != nullptr) {
    ++channel->users;
  }
  card.cqns().set_owner(id, {&session, answer.handle});
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> modify_cq(Session& session, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ModifyCqRequest>();
  const auto cq = session.cqs.get(body.handle);
  if (!cq) {
    return cq.error();
  }
  session.card().engine().call(0, [&](Worker&) {
    (*cq)->queue->moderate(body.count, body.period_us * kNanosecondsPerMicrosecond);
  });
  return Outcome::kReply;
}

namespace {

// Lets each worker take a whole turn, after which work posted before the call has been sent, and
// datagrams have completed. Programs rely on that (pyverbs does). Several tasks can run between the
// same two turns.
void settle(Engine& engine) {
  if (!engine.running()) {
    return;
  }
  constexpr int kTasksMax = 1'000;
  for (std::uint32_t worker = 0; worker < engine.workers(); ++worker) {
    std::uint64_t first = 0;
    bool turned = false;
    for (int task = 0; task < kTasksMax && !turned; ++task) {
      engine.call_on_thread(worker, [&](Worker& w) {
        first = task == 0 ? w.counters().turns : first;
        turned = w.counters().turns > first;
      });
    }
  }
}

Result<Outcome> prepare_resize(Session& session, CqObject& cq, std::uint32_t wanted, Reply* reply) {
  if (wanted == 0 || wanted > kCqesMax) {
    return Error{EINVAL, "a completion queue has 1 to " + std::to_string(kCqesMax) +
                             " entries, not " + std::to_string(wanted)};
  }
  const std::uint32_t entries = std::bit_ceil(wanted);
  auto memory = session.share("uroce-cq", std::size_t{entries} * sizeof(abi::Cqe));
  if (!memory) {
    return memory.error();
  }
  cq.next_entries = std::move(*memory);
  cq.next_entry_count = entries;
  abi::ResizeCqReply answer{};
  answer.entries = entries;
  answer.memory_length = cq.next_entries.length();
  reply->descriptors.push_back(cq.next_entries.take_descriptor());
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace

Result<Outcome> resize_cq(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::ResizeCqRequest>();
  const auto found = session.cqs.get(body.handle);
  if (!found) {
    return found.error();
  }
  CqObject& cq = **found;
  if (body.commit == 0) {
    return prepare_resize(session, cq, body.entries, reply);
  }
  if (cq.next_entry_count == 0) {
    return Error{EINVAL, "resize CQ: no new ring was prepared"};
  }
  settle(session.card().engine());
  const std::uint32_t entries = std::exchange(cq.next_entry_count, 0);
  SealedMemory memory = std::move(cq.next_entries);
  auto* const ring = reinterpret_cast<abi::Cqe*>(memory.data());
  const Status status = resize_in_steps(session.card().engine(), [&](RingResize* move) {
    return cq.queue->resize(ring, entries, move);
  });
  if (!status) {
    return status.error();
  }
  cq.entries = std::move(memory);
  cq.entry_count = entries;
  abi::ResizeCqReply answer{};
  answer.entries = entries;
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> destroy_cq(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.cqs, request, remove_cq);
}

}  // namespace uroce::control
