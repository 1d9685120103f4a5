#pragma once

// The objects behind the pointers that programs hold. Each begins with the public structure, so
// that a pointer to one is a pointer to the other; programs read (and some write) the public part.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "abi/command_records.h"
#include "abi/completion.h"
#include "abi/doorbell.h"
#include "abi/post_stamp.h"
#include "abi/ring.h"
#include "base/spin_lock.h"
#include "base/verified_descriptor.h"
#include "verbs_shim/memory/paging/paging.h"
#include "verbs_shim/memory/pinned/file_mapping.h"
#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/objects/event_queue.h"
#include "verbs_shim/objects/mapping.h"
#include "verbs_shim/objects/registry.h"
#include "verbs_shim/objects/ring_memories.h"
#include "verbs_shim/objects/verbs.h"
#include "verbs_shim/socket/client.h"

namespace uroce::shim {

// Found once, kept for the life of the process: programs compare device pointers.
struct Device {
  ibv_device base;
  char zeroes[64];  // libmlx5 and libefa look behind any device for marks of their own
  abi::DeviceRecord record;
};

struct Channel {
  ibv_comp_channel base;
  std::uint32_t handle = 0;
  // Threads that wait for an event may keep it when the channel is gone. None: the device was
  // closed, and with it the context.
  std::unique_ptr<EventQueue> events{new (std::nothrow) EventQueue(sizeof(abi::CompletionEvent))};
  Channel* next = nullptr;  // of the context's
};

struct Context {
  verbs_context base;
  Client client;
  Registry registry;
  // Threads that wait for an event may keep it when the context is gone.
  std::unique_ptr<EventQueue> async_events{new (std::nothrow)
                                               EventQueue(sizeof(abi::AsyncEventRecord))};
  RingMemories ring_memories;
  Mapping doorbell_memory;
  Mapping status_memory;
  abi::Doorbells* doorbells[abi::kWorkersMax];
  const abi::WorkerStatus* status[abi::kWorkersMax];
  VerifiedDescriptor wake[abi::kWorkersMax];  // the workers' eventfds
  VerifiedDescriptor ticket;                  // base.context.cmd_fd
  abi::WakeOnce waking[abi::kWorkersMax];
  std::uint32_t workers;
  std::uint32_t ports;
  std::vector<std::uint32_t> arenas;  // handle + 1 of each that the daemon has; base.context.mutex
  std::unique_ptr<PagingSession> paging;    // from the first region on demand; base.context.mutex
  Channel* channels;                        // that weren't destroyed; base.context.mutex
  std::atomic<bool> death_announced;        // IBV_EVENT_DEVICE_FATAL was handed out
  Context* next;                            // of all open contexts (context_fork.cc)
  std::atomic<std::uint64_t> errors_shown;  // of the daemon's log; guards nothing
  // As the daemon said it last, for a forked child, which has no session. base.context.mutex
  abi::QueryDeviceReply device;
  bool device_known;
};

// A thread domain: the program's word that one thread at a time uses what it makes in it.
struct Td {
  ibv_td base;
  std::atomic<std::uint32_t> users;  // parent domains; guards nothing else
};

struct Pd {
  ibv_pd base;
  std::atomic<std::uint32_t> users;  // parent domains made of it; guards nothing else
  // Of a parent domain: what it was made of. To the daemon it is its protection domain.
  Pd* domain;
  Td* thread_domain;  // or nullptr
};

struct Xrcd {
  ibv_xrcd base;
  std::uint32_t handle;
};

struct Mr {
  ibv_mr base;
  unsigned access;  // enum ibv_access_flags, as registered
  bool imported;    // the exporter registered it; here it is only known
  std::uint64_t iova;
  bool elsewhere;  // in device memory, or nowhere: nothing of the program's is shared for it
  HeldMemory held;
  FileMapping mapping;  // of the descriptor that it was registered by
};

struct Ah {
  ibv_ah base;
};

struct Cq {
  ibv_cq_ex base;
  SpinLock lock;  // guards the consumer side of the ring
  abi::CqControl* control;
  const abi::Cqe* entries;
  std::uint32_t mask;
  std::uint32_t consumer;
  const abi::Cqe* current;  // between start_poll and end_poll
  abi::Cqe flushed;         // a completion that the shim made itself (daemon_death.h)
  Mapping memory;           // the control, and the entries until the queue is resized
  Mapping entries_memory;   // since then
  std::uint64_t cookie;
  // Events handed to the program; destruction waits until as many were acknowledged.
  std::uint32_t comp_events_delivered;   // registry's lock
  std::uint32_t async_events_delivered;  // registry's lock
};

// The program's end of a send, receive or shared receive queue.
struct WorkRing {
  SpinLock lock;  // guards the producer side
  abi::RingControl* control = nullptr;
  std::byte* entries = nullptr;
  std::uint32_t entry_count = 0;
  std::uint32_t stride = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t producer = 0;  // entries written; published when a chain is complete
  // Entries up to here were completed by the shim itself, since the daemon died; valid once
  // `flushing`.
  std::uint32_t flushed = 0;
  bool flushing = false;

  // 0, or EPROTO if the layout doesn't fit into the memory.
  int place(const Mapping& memory, const abi::RingLayout& layout);
  // Whether the daemon still holds the entry that would be written next.
  [[nodiscard]] bool full() const { return held() >= entry_count; }
  // Entries that the daemon holds: of a send ring, the work requests that are under way.
  [[nodiscard]] std::uint32_t held() const {
    // Pairs with the daemon's release: it has read the entries that we overwrite.
    return producer - control->consumer.value.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::byte* next_entry() const {
    return entries + std::size_t{producer & (entry_count - 1)} * stride;
  }
  void publish() { control->producer.value.store(producer, std::memory_order_release); }
  // Of a send ring: with the time, if the daemon asked for it. REQUIRES: an entry was written.
  void publish_posted() {
    if (abi::wants_stamp(*control)) [[unlikely]] {
      stamp();
    }
    publish();
  }
  void stamp();
};

struct Srq {
  ibv_srq base;
  WorkRing ring;
  Mapping memory;          // the control, and the entries until the queue is resized
  Mapping entries_memory;  // since then
  std::uint64_t cookie;
  std::uint32_t srqn;
  std::uint32_t max_wr;
  std::uint32_t async_events_delivered;  // registry's lock
};

inline constexpr std::size_t kWrFlushOffset = 352;  // in ibv_qp_ex since rdma-core 46
inline constexpr std::size_t kQpExBytesMax = 368;   // of any header's, and a little more

struct Qp {
  ibv_qp_ex base;
  // What newer headers' ibv_qp_ex has behind that of older ones: wr_flush (verbs_flush.h).
  std::byte newer[kQpExBytesMax - sizeof(ibv_qp_ex)];
  WorkRing send;
  WorkRing recv;
  RingMemories::Hold memory;  // that both lie in
  std::uint64_t cookie;
  std::uint32_t worker;
  std::uint32_t doorbell_slot;
  ibv_qp_cap cap;
  bool signal_all;
  bool extended;                         // made with send_ops_flags: has the ibv_wr_* calls
  std::uint32_t async_events_delivered;  // registry's lock
  // The builder of ibv_wr_*, between start and complete; under send.lock.
  std::uint32_t batch_start;
  int batch_error;
  std::byte* batch_entry;  // the request being built
};

// Programs find it there, whatever the headers that they or we were compiled with.
static_assert(offsetof(Qp, send) >= kWrFlushOffset + sizeof(void*));

inline Device* of(ibv_device* device) { return reinterpret_cast<Device*>(device); }
inline Context* of(ibv_context* context) {
  return reinterpret_cast<Context*>(verbs_get_ctx(context));
}
inline Pd* of(ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }
inline Mr* of(ibv_mr* mr) { return reinterpret_cast<Mr*>(mr); }
inline Channel* of(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
inline Cq* of(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
inline Cq* of(ibv_cq_ex* cq) { return reinterpret_cast<Cq*>(cq); }
inline Xrcd* of(ibv_xrcd* xrcd) { return reinterpret_cast<Xrcd*>(xrcd); }
inline Srq* of(ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
inline Qp* of(ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
inline Qp* of(ibv_qp_ex* qp) { return reinterpret_cast<Qp*>(qp); }

inline ibv_qp& plain(Qp& qp) { return qp.base.qp_base; }
inline ibv_cq& plain(Cq& cq) { return *ibv_cq_ex_to_cq(&cq.base); }

// An object in the making: it goes, unless it is released to the program. errno, which says why,
// stays.
struct DeleteKeepingErrno {
  template <typename Object>
  void operator()(Object* object) const {
    const int error = errno;
    delete object;
    errno = error;
  }
};
template <typename Object>
using InTheMaking = std::unique_ptr<Object, DeleteKeepingErrno>;

// A zeroed object, or nullptr with errno ENOMEM.
template <typename Object>
InTheMaking<Object> make() {
  InTheMaking<Object> object(new (std::nothrow) Object());
  if (object == nullptr) {
    errno = ENOMEM;
  }
  return object;
}

// What a verb that makes an object returns if it can't: nullptr with this errno value.
inline std::nullptr_t fail(int error) {
  errno = error;
  return nullptr;
}

// Prints why completions of this context failed, if the program asked for it (UROCE_DEBUG).
void explain_errors(Context& context);

// Waits on an object's condition until the program has acknowledged all events it was given, as
// the destroy calls promise.
inline void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& condition,
                                      const std::uint32_t& completed, std::uint32_t delivered) {
  pthread_mutex_lock(&mutex);
  while (completed != delivered) {
    pthread_cond_wait(&condition, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

}  // namespace uroce::shim
