// The details of a failure (failure_report.h), gathered after it has happened.

#include <span>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/opcode_for.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {
namespace {

// Finds the piece that couldn't be accessed, by checking one by one. Pieces without bytes aren't
// accessed, so they are never the cause.
void blame(std::span<const abi::Sge> sges, std::uint32_t rights, PdId pd, const Turn& turn,
           FailureReport* report) {
  for (const abi::Sge& sge : sges) {
    const Region* region = nullptr;
    if (sge.length != 0 && turn.keys.check(sge.lkey, pd, sge.address, sge.length, rights,
                                           &region) != Access::kGranted) {
      report->key = sge.lkey;
      report->address = sge.address;
      report->length = sge.length;
      return;
    }
  }
}

// Whether the request names the peer's memory. In others these fields may hold anything.
constexpr bool names_remote(abi::WrOpcode opcode) {
  switch (opcode) {
    case abi::WrOpcode::kRdmaWrite:
    case abi::WrOpcode::kRdmaWriteWithImm:
    case abi::WrOpcode::kRdmaRead:
    case abi::WrOpcode::kAtomicCmpAndSwp:
    case abi::WrOpcode::kAtomicFetchAndAdd:
    case abi::WrOpcode::kFlush:
    case abi::WrOpcode::kAtomicWrite:
      return true;
    default:
      return false;
  }
}

// Whether the answer is stored in the memory that the entry names; that of others is read.
bool stores_result(const SendEntry& entry) { return entry.wants_response() && !entry.extension(); }

}  // namespace

// REQUIRES: the queue isn't empty.
void Requester::report_oldest(abi::WcStatus status, Failure failure, Turn& turn) const {
  const SendEntry& entry = queue_.entry(queue_.tail());
  FailureReport report{
      .failure = failure,
      .subject = FailureReport::Subject::kSend,
      .opcode = static_cast<std::uint8_t>(entry.opcode),
      .status = status,
      .qpn = qp_.config_.qpn,
      .psn = entry.stage == SendStage::kBegun ? unacked_psn_ : next_psn_,
      .count = 0,
      .key = names_remote(entry.opcode) ? entry.rkey : 0,
      .owner = qp_.config_.owner,
      .wr_id = entry.wr_id,
      .address = names_remote(entry.opcode) ? entry.remote_address : 0,
      .length = entry.opcode == abi::WrOpcode::kFlush && failure != Failure::kSendOpcode
                    ? entry.flush.length
                    : entry.length,
      .limit = 0};
  switch (failure) {
    case Failure::kSendKey:
    case Failure::kSendUnmapped:
    case Failure::kSendLost:
    case Failure::kSendLate:
      blame(queue_.sges(queue_.tail()),
            stores_result(entry) ? std::uint32_t{kAccessLocalWrite} : 0U, qp_.config_.pd, turn,
            &report);
      break;
    case Failure::kBindPd:
    case Failure::kBindRegion:
    case Failure::kBindRight:
    case Failure::kBindRange:
      report.key = entry.bind.lkey;
      report.address = entry.remote_address;
      report.length = entry.bind.length;
      break;
    case Failure::kBindWindow:
      report.key = entry.rkey;
      break;
    case Failure::kInvalidateLocal:
      report.key = entry.immediate;
      break;
    case Failure::kRetriesExhausted:
    case Failure::kRetriesInVain:
      report.limit = qp_.attributes_.retry_cnt;
      break;
    case Failure::kRnrRetriesExhausted:
      report.limit = qp_.attributes_.rnr_retry;
      break;
    default:
      break;
  }
  turn.events.report(report);
}

// A broken ring holds no work request that could be named.
void Requester::report_ring(Turn& turn) const {
  FailureReport report;
  report.failure = Failure::kSendRing;
  report.qpn = qp_.config_.qpn;
  report.owner = qp_.config_.owner;
  report.psn = next_psn_;
  turn.events.report(report);
}

void Requester::report_flushed(std::uint32_t count, Turn& turn) const {
  FailureReport report;
  report.failure = Failure::kFlushed;
  report.status = abi::WcStatus::kWrFlushErr;
  report.qpn = qp_.config_.qpn;
  report.owner = qp_.config_.owner;
  report.count = count;
  turn.events.report(report);
}

FailureReport Responder::blank_report(Failure failure, abi::WcStatus status) const {
  FailureReport report;
  report.failure = failure;
  report.status = status;
  report.subject = holding_ ? FailureReport::Subject::kReceive : FailureReport::Subject::kPeer;
  report.qpn = qp_->config_.qpn;
  report.owner = qp_->config_.owner;
  report.wr_id = holding_ ? receive_.wr_id : 0;
  report.psn = expected_psn_;
  return report;
}

// For the packet being processed.
void Responder::report(Failure failure, abi::WcStatus status, Turn& turn) const {
  FailureReport report = blank_report(failure, status);
  if (current_ != nullptr) {
    const OpcodeInfo& info = opcode_info(current_->opcode);
    report.opcode = static_cast<std::uint8_t>(current_->opcode);
    report.psn = current_->psn;
    if (info.has(Extension::kReth)) {
      const Reth reth = current_->reth();
      report.key = reth.rkey;
      report.address = reth.address;
      report.length = reth.length;
    } else if (info.has(Extension::kAtomicEth)) {
      const AtomicEth atomic = current_->atomic_eth();
      report.key = atomic.rkey;
      report.address = atomic.address;
      report.length = sizeof(std::uint64_t);
    } else if (info.operation == Operation::kWrite) {
      report.key = write_rkey_;
      report.address = write_address_;
      report.length = write_length_;
    } else {
      report.length = offset_ + current_->payload_length;
    }
  }
  switch (failure) {
    case Failure::kReceiveTooShort:
      report.limit = receive_length_;
      break;
    case Failure::kReceiveKey:
    case Failure::kReceiveUnmapped:
    case Failure::kReceiveLost:
    case Failure::kReceiveLate:
      blame({receive_.sges.data(), receive_.sge_count}, kAccessLocalWrite, memory(turn).pd, turn,
            &report);
      break;
    case Failure::kTooManyReads:
      report.limit = resources();
      break;
    default:
      break;
  }
  turn.events.report(report);
}

void Responder::report_answer(Failure failure, const Resource& resource, std::uint32_t psn,
                              Turn& turn) const {
  FailureReport report = blank_report(failure, abi::WcStatus::kSuccess);
  report.subject = FailureReport::Subject::kPeer;
  report.opcode = static_cast<std::uint8_t>(opcode_for(qp_->config_.type, Opcode::kRcReadRequest));
  report.psn = psn;
  report.key = resource.rkey;
  report.address = resource.address;
  report.length = resource.length;
  turn.events.report(report);
}

void Responder::report_flushed(std::uint32_t count, Turn& turn) const {
  FailureReport report = blank_report(Failure::kFlushed, abi::WcStatus::kWrFlushErr);
  report.subject = FailureReport::Subject::kReceive;
  report.count = count;
  turn.events.report(report);
}

}  // namespace uroce
