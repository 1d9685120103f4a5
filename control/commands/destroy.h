#pragma once

// The common part of destroy commands: destroys the object that the request names, unless it is in
// use.

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/handle_table.h"
#include "control/commands/request.h"
#include "control/sessions/session.h"

namespace uroce::control {

// `remove`: a function of control/sessions/teardown.h. EINVAL: no such object; EBUSY: it is in use.
template <typename Object>
Result<Outcome> destroy(Session& session, const HandleTable<Object>& objects,
                        const Request& request, void (*remove)(Session&, std::uint32_t)) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto object = objects.get(handle);
  if (!object) {
    return object.error();
  }
  if constexpr (requires { (*object)->users; }) {
    if ((*object)->users != 0) {
      return Error{EBUSY, std::string(objects.kind()) + " " + std::to_string(handle) +
                              " is still used by " + std::to_string((*object)->users) + " objects"};
    }
  }
  remove(session, handle);
  return Outcome::kReply;
}

}  // namespace uroce::control
