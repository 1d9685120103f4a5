#pragma once

// Devices and open contexts, among themselves.

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Opens the device. An exporter (magic != 0): what its session has can be imported.
ibv_context* open_context(ibv_device* device, const abi::ImportToken& exporter);

// Fills ibv_context.ops and verbs_context. What stays null there answers EOPNOTSUPP by itself, in
// the headers' inline functions.
void fill_operations(Context& context);
// Of those tables.
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t length);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t length);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

// For fork handling, to keep the list whole.
void lock_device_list();
void unlock_device_list();

// Fork handling knows every open context.
void remember(Context& context);
void forget(Context& context);

}  // namespace uroce::shim
