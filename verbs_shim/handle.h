#pragma once

// Destroying what a handle names, the same for all kinds of objects.

#include "verbs_shim/objects.h"

namespace uroce::shim {

struct PlainRequest {
  control::RequestHeader header;
};
struct PlainReply {
  control::ReplyHeader header;
};

// 0, or the daemon's refusal (EBUSY: something still uses the object). With the daemon gone the
// object is gone too, so that is a success: the program gets its memory back.
inline int destroy_handle(const char* call_name, ibv_context* context, control::Command command,
                          std::uint32_t handle) {
  control::HandleRequest request{};
  request.handle = handle;
  PlainReply reply{};
  const int error = of(context)->client.call(call_name, command, request, reply);
  return error == ENODEV ? 0 : error;
}

}  // namespace uroce::shim
