#include "control/neighbour_changes.h"

#include "control/session.h"

namespace uroce::control {

void follow_neighbour(Card& card, Device& device, const Gid& gid, const EtherAddress& mac) {
  for (const auto& [id, session] : card.sessions) {
    if (session->device() != &device) {
      continue;
    }
    session->qps.for_each([&](std::uint32_t, QpObject& object) {
      if (!object.path || object.path->destination_gid != gid ||
          object.path->destination_mac == mac) {
        return;
      }
      object.path->destination_mac = mac;
      QpAttributes change;
      change.path = *object.path;
      card.engine().call(object.qp->config().worker, [&](Worker& worker) {
        worker.modify_qp(*object.qp, change, kQpMaskPath);
      });
    });
  }
}

}  // namespace uroce::control
