#pragma once

// The objects of a session one by one: protection domains, completion queues, memory regions. Not
// part of `uroce status`, which would be long by them; netlink's lists have them (apps/tree).

#include <cstddef>
#include <cstdint>
#include <string>

#include "control/sessions/session.h"

namespace uroce::control {

// Whether the queue pair with this handle is counted as the session's: a receiving one of XRC is
// counted once, however many sessions hold it.
[[nodiscard]] bool counts_in(const Session& session, std::uint32_t handle, const QpObject& object);

// Goes through a session in pieces, as the status report does. What comes or goes meanwhile is in
// it or not.
class SessionObjects {
 public:
  // JSON objects with a comma between them, so many at most; `*looks` is what is left of that.
  std::string next(const Session& session, std::size_t* looks);
  [[nodiscard]] bool done() const { return kind_ == Kind::kEnd; }

 private:
  enum class Kind : std::uint8_t { kDomains, kQueues, kMemory, kEnd };
  Kind kind_ = Kind::kDomains;
  std::uint32_t handle_ = 0;
  bool first_ = true;
};

}  // namespace uroce::control
