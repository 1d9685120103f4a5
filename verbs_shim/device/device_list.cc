// The devices of the daemon that UROCE_SOCKET names, as returned by ibv_get_device_list.

#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/device/devices.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/client.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

constexpr std::uint32_t kDevicesMax = 16;
static_assert(sizeof(abi::ListDevicesReply::devices) == kDevicesMax * sizeof(abi::DeviceRecord));

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the following
Device known[kDevicesMax];
std::uint32_t known_count = 0;

void name(char* to, std::size_t size, const char* prefix, const char* device) {
  std::snprintf(to, size, "%s%s", prefix, device);
}

// The device with this record's name: the one returned earlier, or a new one.
Device* remembered(const abi::DeviceRecord& record) {
  for (std::uint32_t i = 0; i < known_count; ++i) {
    if (std::strcmp(known[i].base.name, record.name) == 0) {
      known[i].record = record;
      return &known[i];
    }
  }
  if (known_count == kDevicesMax) {
    return nullptr;
  }
  Device& device = known[known_count++];
  device.record = record;
  device.base.node_type = IBV_NODE_CA;
  device.base.transport_type = IBV_TRANSPORT_IB;
  name(device.base.name, sizeof(device.base.name), "", record.name);
  name(device.base.dev_name, sizeof(device.base.dev_name), "", record.name);
  name(device.base.dev_path, sizeof(device.base.dev_path), "/sys/class/infiniband_verbs/",
       record.name);
  name(device.base.ibdev_path, sizeof(device.base.ibdev_path), "/sys/class/infiniband/",
       record.name);
  return &device;
}

// Fetches the daemon's list. 0 or an errno value.
int ask(abi::ListDevicesReply& reply) {
  Client client;
  if (const Status connected = client.connect(); !connected) {
    print_once(connected.error().code, "no devices: %s%s", connected.error().message.c_str(), "");
    return connected.error().code;
  }
  struct {
    abi::RequestHeader header;
  } request{};
  const int error = client.call("ibv_get_device_list", abi::Command::kListDevices, request, reply);
  if (error == ENODEV && reply.header.message[0] == '\0') {
    print_once(error, "no devices: the daemon at %s ended before it answered%s",
               Client::socket_path().c_str(), ": if it is being restarted, try again");
  } else if (error != 0) {
    print_once(error, "the daemon at %s refused to list its devices: %s",
               Client::socket_path().c_str(),
               reply.header.message[0] != '\0' ? reply.header.message : strerrordesc_np(error));
  }
  return error;
}

}  // namespace

void lock_device_list() { pthread_mutex_lock(&mutex); }
void unlock_device_list() { pthread_mutex_unlock(&mutex); }

}  // namespace uroce::shim

using uroce::shim::Device;

extern "C" {

ibv_device** ibv_get_device_list(int* device_count) {
  namespace shim = uroce::shim;
  const shim::CancellationDisabled whole;
  if (device_count != nullptr) {
    *device_count = 0;
  }
  shim::hook_librdmacm();
  uroce::abi::ListDevicesReply reply{};
  if (shim::ask(reply) != 0) {
    reply.count = 0;  // an empty list, as on a machine without devices
  }
  auto** list = new (std::nothrow) ibv_device*[shim::kDevicesMax + 1]();
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  int count = 0;
  pthread_mutex_lock(&shim::mutex);
  for (std::uint32_t i = 0; i < reply.count && i < shim::kDevicesMax; ++i) {
    reply.devices[i].name[uroce::abi::kDeviceNameMax - 1] = '\0';
    Device* device = shim::remembered(reply.devices[i]);
    if (device != nullptr) {
      list[count++] = &device->base;
    }
  }
  pthread_mutex_unlock(&shim::mutex);
  if (device_count != nullptr) {
    *device_count = count;
  }
  return list;
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(uroce::shim::of(device)->record.index);
}

__be64 ibv_get_device_guid(ibv_device* device) { return uroce::shim::of(device)->record.node_guid; }
}
