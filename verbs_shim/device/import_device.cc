// Opening a device that another context has open. The exporter's ibv_context.cmd_fd is a ticket
// (abi/command_records.h); its holder gets a separate session that may import from the exporter's
// (verbs/import.cc).

#include <unistd.h>

#include "verbs_shim/device/devices.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

// The device with this index; nullptr if it isn't listed.
ibv_device* find_device(ibv_device* const* list, std::uint32_t index) {
  for (ibv_device* const* device = list; *device != nullptr; ++device) {
    if (of(*device)->record.index == index) {
      return *device;
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

// On success the context owns the descriptor, as the manual says.
ibv_context* ibv_import_device(int command_descriptor) {
  const CancellationDisabled whole;
  abi::ImportToken ticket{};
  if (pread(command_descriptor, &ticket, sizeof(ticket), 0) != sizeof(ticket) ||
      ticket.magic != abi::kMagic) {
    refuse("ibv_import_device", EINVAL, "the descriptor isn't the cmd_fd of a context of uroce");
    return nullptr;
  }
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) {
    return nullptr;
  }
  ibv_device* const device = find_device(list, ticket.device);
  ibv_context* context = nullptr;
  if (device == nullptr) {
    refuse("ibv_import_device", ENODEV, "the daemon doesn't have the exporter's device");
  } else {
    context = open_context(device, ticket);
  }
  ibv_free_device_list(list);
  if (context != nullptr) {
    close(command_descriptor);
  }
  return context;
}
}
