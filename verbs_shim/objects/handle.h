#pragma once

// Destroying what a handle names, the same for all kinds of objects.

#include <cerrno>

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

struct PlainRequest {
  abi::RequestHeader header;
};
struct PlainReply {
  abi::ReplyHeader header;
};

// 0, or the daemon's refusal (EBUSY: something still uses the object). With the daemon gone the
// object is gone too, so that is a success, which leaves errno alone: the program gets its memory
// back.
inline int destroy_handle(const char* call_name, ibv_context* context, abi::Command command,
                          std::uint32_t handle) {
  abi::HandleRequest request{};
  request.handle = handle;
  PlainReply reply{};
  const int errno_before = errno;
  const int error = of(context)->client.call(call_name, command, request, reply);
  if (error != ENODEV) {
    return error;
  }
  errno = errno_before;
  return 0;
}

// What the program hasn't read of the events of an object that was destroyed goes with it. After
// the object left the registry.
void forget_async_events(ibv_context* context);
void forget_completion_events(ibv_comp_channel* channel);

}  // namespace uroce::shim
