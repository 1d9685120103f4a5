// Opening and closing a device: a separate session with the daemon, and the shared memory for
// doorbells.

#include <fcntl.h>

#include <memory>
#include <utility>

#include "verbs_shim/device/devices.h"
#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

constexpr std::uint32_t kImportTokenDescriptor = 3;
constexpr std::uint32_t kFirstWakeDescriptor = 4;

void close_events(std::unique_ptr<EventQueue>& events) {
  events->start_closing();
  EventQueue::finish_closing(std::move(events));
}

// Called before the session ends, which wakes threads that wait for events, also at channels that
// weren't destroyed: they must not return to the context.
void release_events(Context& context) {
  if (context.client.abandoned()) {
    context.async_events->close_copy();
    return;
  }
  close_events(context.async_events);
  for (Channel* channel = context.channels; channel != nullptr; channel = channel->next) {
    close_events(channel->events);
  }
}

void release(Context* context) {
  release_events(*context);
  for (VerifiedDescriptor& descriptor : context->wake) {
    descriptor.end();
  }
  context->ticket.end();
  pthread_mutex_destroy(&context->base.context.mutex);
  if (ibv_device* const device = context->base.context.device; device != nullptr) {
    release_device(*device);
  }
  release_device(*context->opened);
  delete context;
}

// Maps doorbells and status pages, and takes the descriptors. 0 or an errno value.
int attach(Context& context, const abi::OpenDeviceReply& reply, Descriptors& received) {
  const std::uint32_t workers = reply.workers;
  if (workers == 0 || workers > abi::kWorkersMax ||
      received.count() != kFirstWakeDescriptor + workers) {
    return EPROTO;
  }
  const std::size_t all_doorbells = workers * reply.doorbells_stride;
  int error = context.doorbell_memory.map(
      received.peek(1), all_doorbells + sizeof(abi::CommandPage), PROT_READ | PROT_WRITE);
  if (error == 0) {
    error = context.status_memory.map(received.peek(2), workers * reply.status_stride, PROT_READ);
  }
  if (error != 0) {
    return error;
  }
  for (std::uint32_t i = 0; i < workers; ++i) {
    context.doorbells[i] = context.doorbell_memory.at<abi::Doorbells>(i * reply.doorbells_stride);
    context.status[i] = context.status_memory.at<abi::WorkerStatus>(i * reply.status_stride);
    if (context.doorbells[i] == nullptr || context.status[i] == nullptr) {
      return EPROTO;
    }
    context.wake[i].keep(received.take(kFirstWakeDescriptor + i));
  }
  auto* page = context.doorbell_memory.at<abi::CommandPage>(all_doorbells);
  if (page == nullptr) {
    return EPROTO;
  }
  if (fcntl(received.peek(1), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) {
    context.client.ask_by(*page);
  }
  context.base.context.async_fd = received.peek(0);
  context.async_events->keep(received.take(0));
  // For verbs, this descriptor only serves as the argument of ibv_import_device.
  context.base.context.cmd_fd = received.peek(kImportTokenDescriptor);
  context.ticket.keep(received.take(kImportTokenDescriptor));
  context.workers = workers;
  context.ports = reply.ports;
  if (reply.traced_by != 0) {
    allow_daemon(static_cast<int>(reply.traced_by));
  }
  return 0;
}

int open_session(Context& context, const Device& device, const abi::ImportToken& exporter) {
  if (const DoneOrRefusal connected = context.client.connect(); !connected) {
    return refuse("ibv_open_device", connected.error().code, connected.error().message.c_str());
  }
  abi::OpenDeviceRequest request{};
  request.device = device.record.index;
  request.exporter = exporter;
  abi::OpenDeviceReply reply{};
  Descriptors received;
  const int error =
      context.client.call("ibv_open_device", abi::Command::kOpenDevice, request, reply, &received);
  if (error != 0) {
    return error;
  }
  context.base.context.device = hold_device(reply.device);
  return context.base.context.device == nullptr ? ENOMEM : attach(context, reply, received);
}

}  // namespace

ibv_context* open_context(ibv_device* device, const abi::ImportToken& exporter) {
  const CancellationDisabled whole;
  auto made = make<Context>();
  if (made == nullptr || made->async_events == nullptr) {
    return fail(ENOMEM);
  }
  Context* const context = made.release();  // freed by release()
  hold_device(*device);
  context->opened = device;
  context->base.sz = sizeof(verbs_context);
  ibv_context& base = context->base.context;
  base.async_fd = -1;
  base.cmd_fd = -1;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&base.mutex, nullptr);
  const int error = open_session(*context, *of(device), exporter);
  if (error != 0) {
    release(context);
    errno = error;
    return nullptr;
  }
  base.num_comp_vectors = static_cast<int>(context->workers);
  fill_operations(*context);
  remember(*context);
  return &base;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) { return open_context(device, {}); }

int ibv_close_device(ibv_context* base) {
  const CancellationDisabled whole;  // else descriptors and the session could stay
  Context* context = of(base);
  forget(*context);
  release(context);
  return 0;
}
}
