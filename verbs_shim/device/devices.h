#pragma once

// Internal interfaces of verbs_shim/device: devices and open contexts.

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// One more user of the device that the daemon describes so, and one fewer. nullptr: no memory.
ibv_device* hold_device(const abi::DeviceRecord& record);
// The same of one that has a user.
void hold_device(ibv_device& device);
void release_device(ibv_device& device);

// Opens the device. The context has another one if the daemon was restarted since this was listed,
// as the node of a card may be that of a card plugged in since. `exporter`: objects of that session
// can be imported, if its magic isn't 0.
ibv_context* open_context(ibv_device* device, const abi::ImportToken& exporter);

// Fills ibv_context.ops and verbs_context. For null entries the headers' inline functions return
// EOPNOTSUPP.
void fill_operations(Context& context);
// Entries of those tables.
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t length);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t length);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

// For fork handling, to keep the list consistent.
void lock_device_list();
void unlock_device_list();
// A thread of the parent may have been waiting for the daemon's answer.
void abandon_asking_after_fork();

// Registers an open context for fork handling.
void remember(Context& context);
void forget(Context& context);

}  // namespace uroce::shim
