// Modifying a completion queue that is in use: its size, and the moderation of its events.

#include "abi/cq_records.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/cq_reader.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) {
    return refuse("ibv_modify_cq", EOPNOTSUPP, "only moderation can be changed");
  }
  abi::ModifyCqRequest request{};
  request.handle = cq->handle;
  request.count = attr->moderate.cq_count;
  request.period_us = attr->moderate.cq_period;
  PlainReply reply{};
  return of(cq->context)->client.call("ibv_modify_cq", abi::Command::kModifyCq, request, reply);
}

namespace {

// Lets the daemon create the new ring, and maps it. 0 or an errno value.
int prepare(const Cq& cq, std::uint32_t entry_count, Mapping& memory, abi::ResizeCqReply& reply) {
  abi::ResizeCqRequest request{};
  request.handle = cq.base.handle;
  request.entries = entry_count;
  Descriptors received;
  const int error =
      of(cq.base.context)
          ->client.call("ibv_resize_cq", abi::Command::kResizeCq, request, reply, &received);
  return error != 0 ? error
                    : memory.map_entries(received.peek(0), reply.memory_length, reply.entries,
                                         sizeof(abi::Cqe));
}

int commit(Cq& cq, Mapping& memory, std::uint32_t entry_count) {
  abi::ResizeCqRequest request{};
  request.handle = cq.base.handle;
  request.commit = 1;
  abi::ResizeCqReply reply{};
  const int error =
      of(cq.base.context)->client.call("ibv_resize_cq", abi::Command::kResizeCq, request, reply);
  if (error == 0) {
    detach_current(cq);
    cq.entries = memory.at<abi::Cqe>(0, entry_count);
    cq.mask = entry_count - 1;
    cq.entries_memory.swap(memory);
  }
  return error;
}

// The queue is locked meanwhile: the daemon copies the unpolled entries, so nobody may poll, and
// two threads that resize one queue mustn't commit each other's ring.
int resize(Cq& cq, std::uint32_t entry_count) {
  const CancellationDisabled whole;  // the ring's descriptor is closed under the lock
  Mapping memory;                    // outlives the lock: holds the old ring afterwards
  abi::ResizeCqReply reply{};
  cq.lock.lock();
  int error = prepare(cq, entry_count, memory, reply);
  if (error == 0) {
    error = commit(cq, memory, reply.entries);
  }
  if (error == 0) {
    cq.base.cqe = static_cast<int>(reply.entries);
  }
  cq.lock.unlock();
  return error;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" int ibv_resize_cq(ibv_cq* base, int entry_count) {
  if (entry_count <= 0) {
    return refuse("ibv_resize_cq", EINVAL, "a queue needs at least one entry");
  }
  const int error = resize(*of(base), static_cast<std::uint32_t>(entry_count));
  if (error != 0) {
    errno = error;
  }
  return error;
}
