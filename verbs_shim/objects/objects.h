#pragma once

// The objects behind the pointers that programs hold. Each begins with the public structure, so
// that a pointer to one is a pointer to the other; programs read (and some write) the public part.

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "abi/command_records.h"
#include "abi/completion.h"
#include "abi/device_records.h"
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

// Of one start of the daemon: programs and librdmacm compare device pointers, so that the next
// start's is another one.
struct Device {
  ibv_device base;
  char zeroes[64];           // libmlx5 and libefa look for their own marks behind any device
  abi::DeviceRecord record;  // doesn't change
  // The following is device_list.cc's, under its lock. Users are lists and contexts that have it,
  // and the daemon's last answer; the last one deletes it.
  std::uint32_t users;
  Device* next;  // of all that exist
};

struct Channel {
  ibv_comp_channel base;
  std::uint32_t handle = 0;
  // Threads that wait for an event may use it after the channel is gone. nullptr: the device was
  // closed, and with it the context.
  std::unique_ptr<EventQueue> events{new (std::nothrow) EventQueue(sizeof(abi::CompletionEvent))};
  Channel* next = nullptr;  // next in the context's list
};

struct Context {
  verbs_context base;
  // What the program opened, which it may use until the context is closed. base.context.device is
  // another one if the daemon was restarted since the program listed it.
  ibv_device* opened;
  Client client;
  Registry registry;
  // Threads that wait for an event may use it after the context is gone.
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
  // Handle + 1; 0: not shared. base.context.mutex
  std::array<std::uint32_t, abi::kArenasMax> arenas;
  std::unique_ptr<PagingSession> paging;    // for on-demand regions; base.context.mutex
  Channel* channels;                        // not yet destroyed; base.context.mutex
  std::atomic<bool> death_announced;        // IBV_EVENT_DEVICE_FATAL was delivered
  Context* next;                            // of all open contexts (context_fork.cc)
  std::atomic<std::uint64_t> errors_shown;  // last line shown of the daemon's log; relaxed
  // The daemon's last reply, for a forked child, which has no session. base.context.mutex
  abi::QueryDeviceReply device;
  bool device_known;
};

// A thread domain: the program promises that one thread at a time uses the objects created in it.
struct Td {
  ibv_td base;
  std::atomic<std::uint32_t> users;  // parent domains; relaxed
};

struct Pd {
  ibv_pd base;
  // Parent domains made of it, or of a parent domain the queue pairs and completion queues created
  // in it: as long as there are any it can't be freed. Relaxed.
  std::atomic<std::uint32_t> users;
  // Of a parent domain: the protection domain it was made of, which the daemon uses in its place.
  Pd* domain;
  Td* thread_domain;  // or nullptr
};

struct Xrcd {
  ibv_xrcd base;
  std::uint32_t handle;
};

struct Mr {
  ibv_mr base;
  std::uint32_t pd_handle;  // the program may have freed base.pd, if that was a parent domain
  unsigned access;          // enum ibv_access_flags, as registered
  bool imported;            // registered by the exporter
  std::uint64_t iova;
  bool elsewhere;  // device memory or null region: no program memory is shared for it
  HeldMemory held;
  FileMapping mapping;  // of the descriptor that was registered (dmabuf)
};

struct Ah {
  ibv_ah base;
};

struct Cq {
  ibv_cq_ex base;
  SpinLock lock;  // guards the consumer side of the ring
  // One thread at a time uses the queue, so it isn't locked from start_poll to end_poll.
  bool single_threaded;
  abi::CqControl* control;  // nullptr while it is being created; set under the registry's lock
  const abi::Cqe* entries;
  Pd* parent_domain;  // or nullptr
  std::uint32_t mask;
  std::uint32_t consumer;
  const abi::Cqe* current;  // between start_poll and end_poll
  abi::Cqe detached;        // a copy of the current one (detach_current)
  abi::Cqe flushed;         // a completion generated by the shim (daemon_death.h)
  Mapping memory;           // ring control; also the entries, until the queue is resized
  Mapping entries_memory;   // entries after a resize
  std::uint64_t cookie;
  // Events delivered to the program; destruction waits until as many are acknowledged.
  std::uint32_t comp_events_delivered;   // registry's lock
  std::uint32_t async_events_delivered;  // registry's lock
};

// The program's end of a send, receive or shared receive queue.
struct WorkRing {
  SpinLock lock;  // guards the producer side
  // nullptr while a queue pair is being created, and for good if it has no such ring. In a queue
  // pair set under the registry's lock, with the following three.
  abi::RingControl* control = nullptr;
  std::byte* entries = nullptr;
  std::uint32_t entry_count = 0;
  std::uint32_t stride = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t producer = 0;  // entries written; published when a chain is complete
  // The daemon writes its index with each work request that it is done with, so its line comes from
  // another processor's cache: look() reads it, only when it matters.
  static constexpr std::uint32_t kPostsPerLook = 8;
  std::uint32_t released = 0;  // the daemon's index when it was last read
  std::uint32_t looked = 0;    // ours at that time
  // Entries up to here were completed by the shim after the daemon's death; valid if `flushing`.
  std::uint32_t flushed = 0;
  bool flushing = false;

  // 0, or EPROTO if the layout doesn't fit into the memory.
  int place(const Mapping& memory, const abi::RingLayout& layout);
  // Whether the daemon still holds the entry that would be written next.
  [[nodiscard]] bool full() {
    if (producer - released < entry_count) {
      return false;
    }
    look();
    return producer - released >= entry_count;
  }
  // Entries that the daemon holds, or held kPostsPerLook posts ago at most, and what was posted
  // since: in a send ring, the outstanding work requests.
  [[nodiscard]] std::uint32_t held() {
    if (producer - looked >= kPostsPerLook) {
      look();
    }
    return producer - released;
  }
  [[nodiscard]] std::byte* next_entry() const {
    return entries + std::size_t{producer & (entry_count - 1)} * stride;
  }
  void publish() { control->producer.value.store(producer, std::memory_order_release); }
  // For a send ring: also stores the time, if the daemon requested it. REQUIRES: an entry was
  // written.
  void publish_posted() {
    if (abi::wants_stamp(*control)) [[unlikely]] {
      stamp();
    }
    publish();
  }
  void stamp();
  void look() {
    // Pairs with the daemon's release: it has read the entries that we overwrite.
    released = control->consumer.value.load(std::memory_order_acquire);
    looked = producer;
  }
};

struct Srq {
  ibv_srq base;
  WorkRing ring;
  Mapping memory;          // ring control; also the entries, until the queue is resized
  Mapping entries_memory;  // entries after a resize
  std::uint64_t cookie;
  std::uint32_t srqn;
  std::uint32_t max_wr;
  std::uint32_t async_events_delivered;  // registry's lock
};

// In ibv_qp_ex since rdma-core 46; and its size in any header version, with some reserve.
inline constexpr std::size_t kWrFlushOffset = sizeof(ibv_qp) + 192;
inline constexpr std::size_t kQpExBytesMax = kWrFlushOffset + 16;

struct Qp {
  ibv_qp_ex base;
  // Members of ibv_qp_ex in newer headers: wr_flush (verbs_flush.h).
  std::byte newer[kQpExBytesMax - sizeof(ibv_qp_ex)];
  WorkRing send;
  WorkRing recv;
  RingMemories::Reference memory;  // contains both rings
  Pd* parent_domain;               // that it was created in, or nullptr
  std::uint64_t cookie;
  std::uint32_t worker;
  std::uint32_t doorbell_slot;
  ibv_qp_cap cap;
  bool signal_all;
  bool extended;                         // created with send_ops_flags: supports the ibv_wr_* calls
  std::uint32_t async_events_delivered;  // registry's lock
  // The builder of ibv_wr_*, between start and complete; under send.lock.
  std::uint32_t batch_start;
  int batch_error;
  std::byte* batch_entry;  // the request being built
};

// Programs find it there, whichever headers they or we were compiled with.
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

// Owns an object under construction: deletes it, preserving errno, unless it is released to the
// program.
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

// The return value of a verb that fails to create an object: nullptr with this errno value.
inline std::nullptr_t fail(int error) {
  errno = error;
  return nullptr;
}

// The domain if it is a parent domain, otherwise nullptr. An object created in a parent domain is
// counted there until it is destroyed, as by mlx5: queue pairs, and completion queues that name it.
inline Pd* parent_domain_of(ibv_pd* pd) {
  return pd != nullptr && of(pd)->domain != nullptr ? of(pd) : nullptr;
}
inline Pd* use(Pd* parent_domain) {
  if (parent_domain != nullptr) {
    parent_domain->users.fetch_add(1, std::memory_order_relaxed);
  }
  return parent_domain;
}
inline void stop_using(Pd* parent_domain) {
  if (parent_domain != nullptr) {
    parent_domain->users.fetch_sub(1, std::memory_order_relaxed);
  }
}

// Prints why completions of this context failed, if UROCE_DEBUG is set.
void explain_errors(Context& context);

// Waits until the program has acknowledged all delivered events of an object, as required of the
// destroy calls.
inline void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& condition,
                                      const std::uint32_t& completed, std::uint32_t delivered) {
  pthread_mutex_lock(&mutex);
  while (completed != delivered) {
    pthread_cond_wait(&condition, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

}  // namespace uroce::shim
