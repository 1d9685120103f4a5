#pragma once

// What a REQ and a SIDR_REQ begin with: their parameters have the same names.

#include <cerrno>
#include <cstdint>

#include "base/result.h"
#include "control/cm/connections.h"
#include "control/cm/ip_service.h"
#include "control/cm/limits.h"
#include "control/cm/timing.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm {

template <typename Parameters>
Status check_times(const Parameters& wanted) {
  if (wanted.response_timeout > kTimerCodeMax || wanted.packet_lifetime > kTimerCodeMax ||
      wanted.retries > kCmRetriesMax) {
    return Error{EINVAL, "a timeout code has 5 bits and the number of CM retries 4"};
  }
  return ok();
}

// `instance`: the manager's.
template <typename Parameters>
void begin_active(Connection& connection, const Parameters& wanted, std::uint32_t instance) {
  connection.active = true;
  connection.cookie = wanted.cookie;
  connection.route = wanted.route;
  connection.transaction = static_cast<std::uint64_t>(instance) << 32U | connection.id;
  connection.service_id = wanted.service_id;
  if (has_ip_header(wanted.service_id)) {
    connection.ip = parse_ip_header(wanted.private_data);
  }
  connection.negotiated.pkey = wanted.pkey;
  connection.retransmission = {
      .interval = answer_time(wanted.response_timeout, wanted.packet_lifetime),
      .retries_max = wanted.retries,
      .retries = 0};
}

}  // namespace uroce::control::cm
