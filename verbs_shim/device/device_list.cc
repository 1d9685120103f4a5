// The devices of the daemon that UROCE_SOCKET names, as returned by ibv_get_device_list.
//
// A daemon that was restarted has other devices than before, although they have the same names, as
// when a card is unplugged and plugged in again: librdmacm opens a device once, and finds out in
// this way that what it has open is dead. As in libibverbs, a device exists as long as a list, a
// context or the daemon's last answer has it, and while the daemon runs, all lists have the same
// one.

#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

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

// One thread at a time asks, so that the last answer is the newest. Locked first.
pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the following, and Device::users

Device* all = nullptr;

// The devices of the daemon's last answer; nullptr behind the last.
struct Answer {
  Device* devices[kDevicesMax];
};
Answer last_answer{};

void name(char* to, std::size_t size, const char* prefix, const char* device) {
  std::snprintf(to, size, "%s%s", prefix, device);
}

// REQUIRES: the lock is held.
void release(Device* device) {
  if (device == nullptr || --device->users != 0) {
    return;
  }
  Device** place = &all;
  while (*place != device) {
    place = &(*place)->next;
  }
  *place = device->next;
  delete device;
}

// A device without users. nullptr: no memory. REQUIRES: the lock is held.
Device* make_device(const abi::DeviceRecord& record) {
  auto* device = new (std::nothrow) Device{};
  if (device == nullptr) {
    return nullptr;
  }
  ibv_device& base = device->base;
  base.node_type = IBV_NODE_CA;
  base.transport_type = IBV_TRANSPORT_IB;
  name(base.name, sizeof(base.name), "", record.name);
  name(base.dev_name, sizeof(base.dev_name), "", record.name);
  name(base.dev_path, sizeof(base.dev_path), "/sys/class/infiniband_verbs/", record.name);
  name(base.ibdev_path, sizeof(base.ibdev_path), "/sys/class/infiniband/", record.name);
  device->record = record;
  device->next = all;
  all = device;
  return device;
}

// The device that was listed or opened earlier, or a new one. nullptr: no memory. REQUIRES: the
// lock is held.
Device* device_of(abi::DeviceRecord record) {
  record.name[abi::kDeviceNameMax - 1] = '\0';
  for (Device* device = all; device != nullptr; device = device->next) {
    if (device->record.instance == record.instance &&
        std::strcmp(device->base.name, record.name) == 0) {
      return device;
    }
  }
  return make_device(record);
}

// Makes this the last answer. False: there is no memory for all its devices, and the answer before
// stays. REQUIRES: the lock is held.
bool keep_answer(const abi::ListDevicesReply& reply) {
  Answer now{};
  bool complete = true;
  for (std::uint32_t i = 0; i < reply.count && i < kDevicesMax && complete; ++i) {
    Device* const device = device_of(reply.devices[i]);
    complete = device != nullptr;
    if (complete) {
      ++device->users;
      now.devices[i] = device;
    }
  }
  if (complete) {
    std::swap(last_answer, now);
  }
  for (Device* device : now.devices) {
    release(device);
  }
  return complete;
}

// Fills a list with the devices of the daemon's answer. False: no memory.
bool fill_list(const abi::ListDevicesReply& reply, ibv_device** list, int* count) {
  pthread_mutex_lock(&mutex);
  const bool complete = keep_answer(reply);
  for (std::size_t i = 0; complete && i < kDevicesMax && last_answer.devices[i] != nullptr; ++i) {
    ++last_answer.devices[i]->users;
    list[(*count)++] = &last_answer.devices[i]->base;
  }
  pthread_mutex_unlock(&mutex);
  return complete;
}

enum class Asked : std::uint8_t {
  kAnswered,
  kNoDevices,  // as on a machine without any
  kNoMemory    // of the program
};

// Fetches the daemon's list.
Asked ask(abi::ListDevicesReply& reply) {
  Client client;
  if (const DoneOrRefusal connected = client.connect(); !connected) {
    print_once(connected.error().code, "no devices: %s%s", connected.error().message.c_str(), "");
    return connected.error().code == ENOMEM ? Asked::kNoMemory : Asked::kNoDevices;
  }
  struct {
    abi::RequestHeader header;
  } request{};
  const int error = client.call("ibv_get_device_list", abi::Command::kListDevices, request, reply);
  if (error == ENODEV && reply.header.message[0] == '\0') {
    print_once(error, "no devices: the daemon at %s ended before it answered%s",
               client.socket_path(), ": if it is being restarted, try again");
  } else if (error != 0) {
    print_once(error, "the daemon at %s refused to list its devices: %s", client.socket_path(),
               reply.header.message[0] != '\0' ? reply.header.message : strerrordesc_np(error));
  }
  return error == 0 ? Asked::kAnswered : Asked::kNoDevices;
}

// A new list and its length. nullptr: no memory. REQUIRES: `asking` is held.
ibv_device** list_devices(int* count) {
  abi::ListDevicesReply reply{};
  const Asked asked = ask(reply);
  if (asked == Asked::kNoMemory) {
    return nullptr;
  }
  auto** list = new (std::nothrow) ibv_device*[kDevicesMax + 1]();
  if (list != nullptr && asked == Asked::kAnswered && !fill_list(reply, list, count)) {
    delete[] list;
    return nullptr;
  }
  return list;
}

}  // namespace

void lock_device_list() { pthread_mutex_lock(&mutex); }
void unlock_device_list() { pthread_mutex_unlock(&mutex); }
void abandon_asking_after_fork() { asking = PTHREAD_MUTEX_INITIALIZER; }

ibv_device* hold_device(const abi::DeviceRecord& record) {
  pthread_mutex_lock(&mutex);
  Device* const device = device_of(record);
  if (device != nullptr) {
    ++device->users;
  }
  pthread_mutex_unlock(&mutex);
  return device == nullptr ? nullptr : &device->base;
}

void hold_device(ibv_device& device) {
  pthread_mutex_lock(&mutex);
  ++of(&device)->users;
  pthread_mutex_unlock(&mutex);
}

void release_device(ibv_device& device) {
  pthread_mutex_lock(&mutex);
  release(of(&device));
  pthread_mutex_unlock(&mutex);
}

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
  int count = 0;
  pthread_mutex_lock(&shim::asking);
  ibv_device** const list = shim::list_devices(&count);
  pthread_mutex_unlock(&shim::asking);
  if (list == nullptr) {
    errno = ENOMEM;
  }
  if (device_count != nullptr) {
    *device_count = count;
  }
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  for (ibv_device** device = list; list != nullptr && *device != nullptr; ++device) {
    uroce::shim::release_device(**device);
  }
  delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(uroce::shim::of(device)->record.instance);
}

__be64 ibv_get_device_guid(ibv_device* device) { return uroce::shim::of(device)->record.node_guid; }
}
