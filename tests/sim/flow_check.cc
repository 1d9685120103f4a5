// Checks the results of posted work.

#include <algorithm>
#include <cstring>

#include "tests/sim/flow.h"

namespace uroce::sim {
namespace {

using abi::WcOpcode;
using abi::WcStatus;
using abi::WrOpcode;

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
      return WcOpcode::kSend;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kAtomicCmpAndSwp:
      return WcOpcode::kCompSwap;
    case WrOpcode::kAtomicFetchAndAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
    case WrOpcode::kFlush:
      return WcOpcode::kFlush;
    default:
      return WcOpcode::kRdmaWrite;
  }
}

std::string number(std::uint64_t value) { return std::to_string(value); }

}  // namespace

std::string Flow::check() {
  while (const auto cqe = to_end_.queues.poll_recv()) {
    receives_reported_.push_back(*cqe);
    if (std::string wrong = check_receive(*cqe); !wrong.empty()) {
      return describe() + ": receive " + number(cqe->wr_id) + ": " + wrong;
    }
  }
  // A slot is freed after its completion, so every completion belongs to a freed slot.
  const std::uint32_t freed = from_end_.queues.send_consumer();
  std::optional<abi::Cqe> cqe = from_end_.queues.poll_send();
  while (!requests_.empty() && next_ - requests_.size() != freed) {
    const Request& request = requests_.front();
    const bool its = cqe.has_value() && cqe->wr_id == request.id;
    if (its) {
      sends_reported_.push_back(*cqe);
    }
    const std::string wrong = check_send(request, its ? cqe : std::nullopt);
    if (!wrong.empty()) {
      return describe() + ": request " + number(request.id & 0xFFFF'FFFFU) + ": " + wrong;
    }
    if (its) {
      cqe = from_end_.queues.poll_send();
    }
    requests_.pop_front();
  }
  if (cqe.has_value()) {
    return describe() + ": a completion that nobody waits for, id " +
           number(cqe->wr_id & 0xFFFF'FFFFU) + ", status " +
           number(static_cast<std::uint64_t>(cqe->status));
  }
  return {};
}

std::string Flow::check_send(const Request& request, const std::optional<abi::Cqe>& cqe) {
  if (cqe.has_value() && cqe->status != WcStatus::kSuccess) {
    return check_failure(request, *cqe);
  }
  if (failed_) {
    return "succeeded after one that failed";
  }
  if (request.spoilt) {
    return "should have failed";
  }
  if (cqe.has_value() != request.signaled) {
    return request.signaled ? "no completion" : "completed, but wasn't signalled";
  }
  if (cqe.has_value() && cqe->opcode != completion_opcode(request.opcode)) {
    return "completed as opcode " + number(static_cast<std::uint64_t>(cqe->opcode));
  }
  return check_answer(request);
}

std::string Flow::check_failure(const Request& request, const abi::Cqe& cqe) {
  const bool first = !failed_;
  failed_ = true;
  give_up_on(request);
  const std::string said = "status " + number(static_cast<std::uint64_t>(cqe.status));
  if (!first) {
    return cqe.status == WcStatus::kWrFlushErr ? "" : said + " after one that failed";
  }
  if (request.spoilt && cqe.status == request.status) {
    return {};
  }
  switch (cqe.status) {
    case WcStatus::kWrFlushErr:
    case WcStatus::kRetryExcErr:
      return may_break_ ? "" : said + " without a cause";
    case WcStatus::kRnrRetryExcErr:
      // Memory that is being paged in can also make the peer not ready.
      return config_.mishap == Mishap::kNoReceive && (message_of(request) || to_.paging != nullptr)
                 ? ""
                 : said + " without a cause";
    default:
      return said + ", which nothing explains";
  }
}

// A READ or an atomic must return the contents at its place in the order.
std::string Flow::check_answer(const Request& request) {
  if (request.sges.empty() || (request.answer.empty() && !request.shared)) {
    return {};
  }
  const std::size_t at = from_.arena.offset(request.sges[0].address);
  if (request.shared) {
    std::uint64_t original = 0;
    std::memcpy(&original, from_.arena.memory.data() + at, sizeof(original));
    shared_.originals.push_back(original);
    from_.arena.expect(at, std::as_bytes(std::span(&original, 1)));
    return {};
  }
  if (!from_.arena.holds(at, request.answer)) {
    return "brought something else than was there";
  }
  from_.arena.expect(at, request.answer);
  return {};
}

// It may have been executed in part, or not at all.
void Flow::give_up_on(const Request& request) {
  switch (request.opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
      return;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return to_.arena.forget(request.remote, request.length);
    default:
      break;
  }
  shared_.exact = shared_.exact && !request.shared;
  if (request.opcode != WrOpcode::kRdmaRead) {
    to_.arena.forget(request.remote, request.length);
  }
  if (!request.sges.empty()) {
    from_.arena.forget(from_.arena.offset(request.sges[0].address), request.length);
  }
}

std::string Flow::check_receive(const abi::Cqe& cqe) {
  if (posted_receives_.empty()) {
    return "completed, but none is posted";
  }
  const Receive receive = std::move(posted_receives_.front());
  posted_receives_.pop_front();
  if (cqe.wr_id != receive.id) {
    return "completed, but it is the turn of " + number(receive.id);
  }
  if (cqe.status == WcStatus::kSuccess) {
    return peer_failed_ ? "succeeded after one that failed" : check_message(receive, cqe);
  }
  const bool first = !peer_failed_;
  peer_failed_ = true;
  to_.arena.forget(to_.arena.offset(receive.sges[0].address), config_.message_bytes_max);
  if (cqe.status == WcStatus::kWrFlushErr) {
    return may_break_ ? "" : "flushed without a cause";
  }
  // A receive that was consumed by a WRITE with immediate fails with it.
  const bool refused = config_.mishap == Mishap::kBadRkey || config_.mishap == Mishap::kBadRange;
  const WcStatus refusal = config_.mishap == Mishap::kBadRange && to_.has_all_memory()
                               ? WcStatus::kRemOpErr
                               : WcStatus::kRemAccessErr;
  const bool too_long = !messages_.empty() && messages_.front().too_long;
  return first && ((cqe.status == WcStatus::kLocLenErr && too_long) ||
                   (cqe.status == refusal && refused))
             ? ""
             : "status " + number(static_cast<std::uint64_t>(cqe.status));
}

std::string Flow::check_message(const Receive& receive, const abi::Cqe& cqe) {
  if (messages_.empty()) {
    return "a message that nobody sent";
  }
  const Message message = std::move(messages_.front());
  messages_.pop_front();
  if (message.too_long) {
    return "took a message that is too long";
  }
  if (cqe.byte_len != message.length) {
    return "length " + number(cqe.byte_len) + " instead of " + number(message.length);
  }
  if (((cqe.wc_flags & abi::kWcWithImm) != 0) != message.has_immediate ||
      (message.has_immediate && cqe.immediate != message.immediate)) {
    return "another immediate";
  }
  if (cqe.opcode != (message.writes ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv)) {
    return "another opcode";
  }
  const std::size_t at = to_.arena.offset(receive.sges[0].address);
  if (!to_.arena.holds(at, message.bytes)) {
    return "other bytes than were sent";
  }
  to_.arena.expect(at, message.bytes);
  return {};
}

std::string Flow::check_end() {
  if (!broken() && !messages_.empty()) {
    return describe() + ": " + number(messages_.size()) + " messages never arrived";
  }
  if (to_end_.qp.state() == QpState::kErr && !posted_receives_.empty()) {
    return describe() + ": " + number(posted_receives_.size()) + " receives weren't flushed";
  }
  if (broken() && !posted_receives_.empty()) {
    // The peer may hold it for a message whose remainder never arrived.
    to_.arena.forget(to_.arena.offset(posted_receives_.front().sges[0].address),
                     config_.message_bytes_max);
  }
  return {};
}

bool Flow::finished() const { return posted() && requests_.empty(); }

std::string Flow::describe() const {
  return "QP " + number(from_end_.qp.config().qpn) + " to " + number(to_end_.qp.config().qpn) +
         ", mishap " + number(static_cast<std::uint64_t>(config_.mishap)) + " at " +
         number(config_.mishap_at) + ", posted " + number(next_) + " of " +
         number(config_.requests) + ", memory: local " + number(local_) + ", receives " +
         number(receives_) + ", zone " + number(zone_) + ", counters " + number(counters_);
}

}  // namespace uroce::sim
