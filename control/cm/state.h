#pragma once

// The states of a connection (IBTA vol. 1, 12.9.5 to 12.9.7), and the data reported about it.

#include <cstdint>
#include <optional>

#include "control/cm/events.h"
#include "control/cm/ip_service.h"

namespace uroce::control::cm {

enum class State : std::uint8_t {
  kIdle,  // it is over and nothing is owed to anybody; the program still holds the id
  kReqSent,
  kMraReqReceived,  // REQ sent, the peer asked for patience
  kReqReceived,
  kMraReqSent,
  kRepSent,
  kMraRepReceived,
  kRepReceived,
  kMraRepSent,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
};
const char* name_of(State state);  // "req_sent"

struct ConnectionInfo {
  ConnectionId id = 0;
  std::uint32_t remote_id = 0;
  State state{};
  bool active = false;
  bool owned = true;  // false: the program has destroyed it, what is left is the protocol's
  std::uint64_t cookie = 0;
  std::uint64_t service_id = 0;
  std::optional<IpHeader> ip;
  Route route;
  std::uint32_t qpn = 0, remote_qpn = 0;
  std::uint32_t retries = 0;  // of the message that is being repeated
};

struct ListenerInfo {
  ListenerId id = 0;
  std::uint64_t service_id = 0;
  std::optional<Gid> address;
  std::optional<std::uint32_t> device;
  std::uint64_t cookie = 0;
  std::uint32_t backlog = 0, waiting = 0;
};

// One per line of counters.def.
struct Counters {
#define UROCE_CM_COUNTER(member, name, explanation) std::uint64_t member = 0;
#include "control/cm/counters.def"
#undef UROCE_CM_COUNTER
  std::optional<RejectReason> last_reject_received, last_reject_sent;
};

}  // namespace uroce::control::cm
