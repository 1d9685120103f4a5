#pragma once

// Destroys the object of a handle; common to all kinds of objects.

#include <cerrno>

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

struct PlainRequest {
  abi::RequestHeader header;
};
struct PlainReply {
  abi::ReplyHeader header;
};

// 0, or the daemon's error (EBUSY: the object is in use). If the daemon is gone, so is the object:
// this succeeds and preserves errno, so that the program can free its memory.
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

// Discards unread events of a destroyed object. Call after its removal from the registry.
void forget_async_events(ibv_context* context);
void forget_completion_events(ibv_comp_channel* channel);

}  // namespace uroce::shim
