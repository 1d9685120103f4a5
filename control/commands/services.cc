#include "control/commands/services.h"

namespace uroce::control {

cm_user::Host connection_host(Card& card) {
  return {.engine = card.engine(),
          .devices = card.devices(),
          .clock = [&card] { return card.now(); },
          .owner_of_qp = [&card](std::uint32_t qpn) { return card.owner_of_qp(qpn); }};
}

}  // namespace uroce::control
