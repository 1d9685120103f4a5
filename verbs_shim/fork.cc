// What fork() does to open contexts.
//
// A session belongs to the process that opened it. The child inherits the mappings of the rings, so
// it could scribble into its parent's queues; its contexts are therefore marked dead, and every
// call on them fails as if the daemon were gone. Registered memory is verbs_shim/memory's business.

#include <pthread.h>

#include <atomic>

#include "verbs_shim/objects.h"
#include "verbs_shim/operations.h"

namespace uroce::shim {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
Context* open_contexts = nullptr;
bool handlers_installed = false;

std::atomic<bool> fork_initialized{false};

void before_fork() { pthread_mutex_lock(&mutex); }

void after_fork_in_parent() { pthread_mutex_unlock(&mutex); }

void after_fork_in_child() {
  for (Context* context = open_contexts; context != nullptr; context = context->next) {
    context->client.abandon_after_fork();
    if (context->paging != nullptr) {
      context->paging->abandon_after_fork();
    }
  }
  mutex = PTHREAD_MUTEX_INITIALIZER;
}

}  // namespace

void remember(Context& context) {
  pthread_mutex_lock(&mutex);
  if (!handlers_installed) {
    handlers_installed =
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  }
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

// Forks are safe without it; it is remembered because programs ask.
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
