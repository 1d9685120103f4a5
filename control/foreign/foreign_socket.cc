#include "control/foreign/foreign_socket.h"

#include <sys/socket.h>

#include "base/sockets/record_socket.h"

namespace uroce::control {

ForeignSocket::~ForeignSocket() {
  // From here on nothing more is queued.
  (void)::shutdown(socket_.get(), SHUT_RDWR);
  if (!nothing_waits(socket_.get())) {
    helpers_->close(user_, std::move(socket_), std::move(charge_));
  }
}

}  // namespace uroce::control
