#include "control/cm/qp_attributes.h"

#include <cerrno>

#include "control/cm/manager.h"
#include "control/cm/refusals.h"

namespace uroce::control::cm {

Result<QpAttributes> Manager::qp_attributes(ConnectionId id, QpState state) const {
  const Connection* connection = connections_.find(id);
  if (connection == nullptr) {
    return Error{EINVAL, "there is no connection " + std::to_string(id)};
  }
  const NegotiatedParameters& negotiated = connection->negotiated;
  QpAttributes attributes;
  attributes.route = connection->route;
  attributes.pkey = negotiated.pkey;
  attributes.transport = negotiated.transport;
  if (state == QpState::kInit) {
    return attributes;
  }
  if (connection->remote_qpn == 0) {
    return wrong_state("queue pair beyond INIT", connection->state);
  }
  attributes.path_mtu = negotiated.path_mtu;
  attributes.dest_qpn = connection->remote_qpn;
  attributes.rq_psn = connection->receive_psn;
  attributes.max_dest_rd_atomic = negotiated.responder_resources;
  attributes.rnr_retry_count_peer = negotiated.rnr_retry_count_peer;
  if (state == QpState::kRtr) {
    return attributes;
  }
  attributes.sq_psn = connection->send_psn;
  attributes.timeout = negotiated.ack_timeout;
  attributes.retry_cnt = negotiated.retry_count;
  attributes.rnr_retry = negotiated.rnr_retry_count;
  attributes.max_rd_atomic = negotiated.initiator_depth;
  return attributes;
}

}  // namespace uroce::control::cm
