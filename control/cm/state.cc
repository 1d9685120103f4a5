#include "control/cm/state.h"

namespace uroce::control::cm {

const char* name_of(State state) {
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kReqSent:
      return "req_sent";
    case State::kMraReqReceived:
      return "mra_req_received";
    case State::kReqReceived:
      return "req_received";
    case State::kMraReqSent:
      return "mra_req_sent";
    case State::kRepSent:
      return "rep_sent";
    case State::kMraRepReceived:
      return "mra_rep_received";
    case State::kRepReceived:
      return "rep_received";
    case State::kMraRepSent:
      return "mra_rep_sent";
    case State::kEstablished:
      return "established";
    case State::kDreqSent:
      return "dreq_sent";
    case State::kDreqReceived:
      return "dreq_received";
    case State::kTimewait:
      return "timewait";
    case State::kSidrReqSent:
      return "sidr_req_sent";
    case State::kSidrReqReceived:
      return "sidr_req_received";
  }
  return "unknown";
}

}  // namespace uroce::control::cm
