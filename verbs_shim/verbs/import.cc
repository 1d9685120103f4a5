// Using what another context (often of another process) made: its protection domains and memory
// regions. The exporter's ibv_context.cmd_fd is a ticket (abi/command_records.h); whoever holds it
// gets a session of its own that may import from the exporter's.

#include <unistd.h>

#include "abi/import_records.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/handle.h"
#include "verbs_shim/verbs/objects.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

// The listed device with this index; nullptr if it is gone.
ibv_device* find_device(std::uint32_t index) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_device* found = nullptr;
  for (ibv_device** device = list; list != nullptr && *device != nullptr; ++device) {
    if (of(*device)->record.index == index) {
      found = *device;  // devices live on after their list
    }
  }
  ibv_free_device_list(list);
  return found;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;
using abi::Command;

extern "C" {

// On success the descriptor is the context's, as the manual has it.
ibv_context* ibv_import_device(int command_descriptor) {
  abi::Ticket ticket{};
  if (pread(command_descriptor, &ticket, sizeof(ticket), 0) != sizeof(ticket) ||
      ticket.magic != abi::kMagic) {
    refuse("ibv_import_device", EINVAL, "the descriptor isn't the cmd_fd of a context of uroce");
    return nullptr;
  }
  ibv_device* device = find_device(ticket.device);
  if (device == nullptr) {
    refuse("ibv_import_device", ENODEV, "the daemon doesn't have the exporter's device");
    return nullptr;
  }
  ibv_context* context = open_context(device, ticket);
  if (context != nullptr) {
    close(command_descriptor);
  }
  return context;
}

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  auto* pd = make<Pd>();
  if (pd == nullptr) {
    return nullptr;
  }
  abi::HandleRequest request{};
  request.handle = handle;
  abi::HandleReply reply{};
  const int error = of(context)->client.call("ibv_import_pd", Command::kImportPd, request, reply);
  if (error != 0) {
    delete pd;
    errno = error;
    return nullptr;
  }
  pd->base.context = context;
  pd->base.handle = reply.handle;
  return &pd->base;
}

// What was made in it keeps the daemon's end alive until the session ends.
void ibv_unimport_pd(ibv_pd* pd) {
  destroy_handle("ibv_unimport_pd", pd->context, Command::kDeallocPd, pd->handle);
  delete of(pd);
}

// The address stays unknown: it is one of the exporter's.
ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  auto* mr = make<Mr>();
  if (mr == nullptr) {
    return nullptr;
  }
  abi::ImportMrRequest request{};
  request.pd = pd->handle;
  request.handle = handle;
  abi::ImportMrReply reply{};
  const int error =
      of(pd->context)->client.call("ibv_import_mr", Command::kImportMr, request, reply);
  if (error != 0) {
    delete mr;
    errno = error;
    return nullptr;
  }
  mr->base.context = pd->context;
  mr->base.pd = pd;
  mr->base.handle = handle;
  mr->base.length = reply.length;
  mr->base.lkey = reply.lkey;
  mr->base.rkey = reply.rkey;
  mr->imported = true;
  return &mr->base;
}

void ibv_unimport_mr(ibv_mr* mr) { delete of(mr); }
}
