#pragma once

// The individual objects of a session: protection domains, completion queues, memory regions. Left
// out of `uroce status`, which would become too long; they are for netlink's lists (apps/tree).

#include <cstddef>
#include <cstdint>
#include <string>

#include "control/sessions/session.h"

namespace uroce::control {

// Whether the queue pair with this handle is counted for this session: an XRC receive queue pair is
// counted once, however many sessions hold it.
[[nodiscard]] bool counts_in(const Session& session, std::uint32_t handle, const QpObject& object);

// Walks a session's objects in pieces, like the status report. Objects created or destroyed
// meanwhile may be included or not.
class SessionObjects {
 public:
  // JSON objects separated by commas, at most `*visits`, which is reduced by their number.
  std::string next(const Session& session, std::size_t* visits);
  [[nodiscard]] bool done() const { return kind_ == Kind::kEnd; }

 private:
  enum class Kind : std::uint8_t { kDomains, kQueues, kMemory, kEnd };
  Kind kind_ = Kind::kDomains;
  std::uint32_t handle_ = 0;
  bool first_ = true;
};

}  // namespace uroce::control
