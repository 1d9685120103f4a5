// Open contexts across fork().
//
// A session belongs to the process that opened it. The child inherits the mappings of the rings, so
// it could write into its parent's queues; its contexts are therefore marked dead, and every call
// on them fails as if the daemon were gone. Registered memory is handled by verbs_shim/memory.
//
// Locks that the parent's other threads hold at that moment stay locked in the child. Those that
// are never held for long are taken before the fork, so that the child finds the guarded data
// consistent; the others are reinitialised in the child, where nothing that they guard is used.

#include <pthread.h>

#include <atomic>

#include "base/check.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/device/devices.h"
#include "verbs_shim/memory/sharing/sharing_state.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the following
Context* open_contexts = nullptr;

std::atomic<bool> fork_initialized{false};

void before_fork() {
  pthread_mutex_lock(&mutex);
  for (Context* context = open_contexts; context != nullptr; context = context->next) {
    context->registry.lock();
    context->ring_memories.lock();
  }
  lock_device_list();
  lock_librdmacm_hooks();
}

void unlock() {
  unlock_librdmacm_hooks();
  unlock_device_list();
  for (Context* context = open_contexts; context != nullptr; context = context->next) {
    context->ring_memories.unlock();
    context->registry.unlock();
  }
  pthread_mutex_unlock(&mutex);
}

// The locks of the context's queues, which the parent's threads may be posting to or polling.
void unlock_queues(Context& context) {
  context.registry.any_of<Cq>(Registry::Kind::kCq, [](Cq& cq) {
    cq.lock.unlock();
    return false;
  });
  context.registry.any_of<Srq>(Registry::Kind::kSrq, [](Srq& srq) {
    srq.ring.lock.unlock();
    return false;
  });
  context.registry.any_of<Qp>(Registry::Kind::kQp, [](Qp& qp) {
    qp.send.lock.unlock();
    qp.recv.lock.unlock();
    return false;
  });
}

void after_fork_in_child() {
  unlock();
  abandon_asking_after_fork();
  for (Context* context = open_contexts; context != nullptr; context = context->next) {
    context->client.abandon_after_fork();
    if (context->paging != nullptr) {
      context->paging->abandon_after_fork();
    }
    context->base.context.mutex = PTHREAD_MUTEX_INITIALIZER;
    unlock_queues(*context);
  }
  abandon_cm_channels_after_fork();
}

// The handlers of verbs_shim/memory come first, because the others need memory that is no longer
// shared with the parent.
__attribute__((constructor)) void install_handlers() {
  (void)sharing_state();
  UROCE_CHECK(pthread_atfork(before_fork, unlock, after_fork_in_child) == 0);
}

}  // namespace

void remember(Context& context) {
  pthread_mutex_lock(&mutex);
  context.next = open_contexts;
  open_contexts = &context;
  pthread_mutex_unlock(&mutex);
}

void forget(Context& context) {
  pthread_mutex_lock(&mutex);
  for (Context** place = &open_contexts; *place != nullptr; place = &(*place)->next) {
    if (*place == &context) {
      *place = context.next;
      break;
    }
  }
  pthread_mutex_unlock(&mutex);
}

}  // namespace uroce::shim

using uroce::shim::fork_initialized;

extern "C" {

// Forks are safe without this call; it is recorded because programs query it.
int ibv_fork_init(void) {
  fork_initialized.store(true, std::memory_order_relaxed);
  return 0;
}

ibv_fork_status ibv_is_fork_initialized(void) {
  return fork_initialized.load(std::memory_order_relaxed) ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

int ibv_dontfork_range(void* base, size_t size) {
  (void)base;
  (void)size;
  return 0;
}

int ibv_dofork_range(void* base, size_t size) {
  (void)base;
  (void)size;
  return 0;
}
}
