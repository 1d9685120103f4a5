// Completion channels: a record for each event (verbs_shim/objects/event_queue.h).

#include <cstring>
#include <utility>

#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/daemon_death.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

bool is_gone(void* context, const void* record) {
  abi::CompletionEvent event{};
  std::memcpy(&event, record, sizeof(event));
  return !static_cast<Context*>(context)->registry.with<Cq>(event.cq_cookie, [](Cq& /*cq*/) {});
}

// The next record. 0, or -1 with errno: EAGAIN if the program made the descriptor non-blocking,
// ENODEV when the daemon is gone, or when this is the child of a fork, which must not take its
// parent's events.
int read_event(ibv_comp_channel& channel, abi::CompletionEvent& event) {
  Context& context = *of(channel.context);
  if (context.client.abandoned()) {
    errno = ENODEV;
    return -1;
  }
  const ssize_t length = of(&channel)->events->next({is_gone, &context}, &event);
  if (length == static_cast<ssize_t>(sizeof(event))) {
    return 0;
  }
  if (length >= 0) {
    errno = ENODEV;
  }
  return -1;
}

// The daemon has died. Threads that wait on the channel get a last event for each armed queue, and
// no more after that.
int wake_after_death(ibv_comp_channel& channel, ibv_cq** cq, void** cq_context) {
  Client& client = of(channel.context)->client;
  (void)client.check();
  Cq* woken = client.abandoned() ? nullptr : next_to_wake(channel);
  if (woken == nullptr) {
    errno = ENODEV;
    return -1;
  }
  *cq = &plain(*woken);
  *cq_context = woken->base.cq_context;
  return 0;
}

// Removes it from the context's channels.
void remove(Channel& channel) {
  ibv_context* const context = channel.base.context;
  pthread_mutex_lock(&context->mutex);
  Channel** place = &of(context)->channels;
  while (*place != &channel) {
    place = &(*place)->next;
  }
  *place = channel.next;
  pthread_mutex_unlock(&context->mutex);
}

}  // namespace

void forget_completion_events(ibv_comp_channel* channel) {
  if (channel == nullptr || of(channel)->events == nullptr ||
      of(channel->context)->client.abandoned()) {
    return;
  }
  of(channel)->events->forget({is_gone, of(channel->context)});
}

}  // namespace uroce::shim

using namespace uroce::shim;
using abi::Command;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const CancellationDisabled whole;
  auto channel = make<Channel>();
  if (channel == nullptr || channel->events == nullptr) {
    return fail(ENOMEM);
  }
  abi::CreateChannelRequest request{};
  abi::HandleReply reply{};
  Descriptors received;
  int error = of(context)->client.call("ibv_create_comp_channel", Command::kCreateChannel, request,
                                       reply, &received);
  if (error == 0 && received.count() != 1) {
    error = EPROTO;
  }
  if (error != 0) {
    return fail(error);
  }
  channel->base.context = context;
  channel->base.fd = received.peek(0);
  channel->events->keep(received.take(0));
  channel->handle = reply.handle;
  pthread_mutex_lock(&context->mutex);
  channel->next = std::exchange(of(context)->channels, channel.get());
  pthread_mutex_unlock(&context->mutex);
  return &channel.release()->base;
}

int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  const CancellationDisabled whole;  // its descriptors are closed after the object is gone
  if (of(base)->events == nullptr) {
    delete of(base);
    return 0;
  }
  pthread_mutex_lock(&base->context->mutex);
  const bool in_use = base->refcnt != 0;
  pthread_mutex_unlock(&base->context->mutex);
  if (in_use) {
    return refuse("ibv_destroy_comp_channel", EBUSY, "completion queues still use the channel");
  }
  Channel* channel = of(base);
  const bool inherited = of(base->context)->client.abandoned();
  if (!inherited) {
    channel->events->start_closing();
  }
  const int error = destroy_handle("ibv_destroy_comp_channel", base->context,
                                   Command::kDestroyChannel, channel->handle);
  if (error != 0) {
    channel->events->give_up_closing();  // not in a fork's child, where closing always succeeds
    return error;
  }
  remove(*channel);
  if (inherited) {
    channel->events->close_copy();
  } else {
    EventQueue::finish_closing(std::move(channel->events));
  }
  delete channel;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (of(channel)->events == nullptr) {
    errno = ENODEV;
    return -1;
  }
  for (;;) {
    uroce::abi::CompletionEvent event{};
    if (read_event(*channel, event) != 0) {
      return errno == ENODEV ? wake_after_death(*channel, cq, cq_context) : -1;
    }
    const bool there = of(channel->context)->registry.with<Cq>(event.cq_cookie, [&](Cq& object) {
      ++object.comp_events_delivered;
      *cq = &plain(object);
      *cq_context = object.base.cq_context;
    });
    if (there) {
      return 0;  // otherwise the event's queue was destroyed meanwhile
    }
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}
}
