#include "control/neighbour_changes.h"

#include "control/commands.h"
#include "control/session.h"

namespace uroce::control {

void follow_neighbour(Card& card, Device& device, const Gid& gid, const EtherAddress& mac) {
  for (const auto& entry : card.sessions) {
    Session& session = *entry.second;
    if (session.device() != &device) {
      continue;
    }
    session.qps.for_each([&](std::uint32_t, QpObject& object) {
      if (!object.path || object.path->destination_mac == mac ||
          device.next_hop(object.path->destination_gid) != gid) {
        return;
      }
      object.path->destination_mac = mac;
      QpAttributes change;
      change.path = *object.path;
      card.engine().call(object.qp->config().worker, [&](Worker& worker) {
        worker.modify_qp(*object.qp, change, kQpMaskPath);
      });
    });
    session.address_handles.for_each([&](std::uint32_t handle, AddressHandle& ah) {
      if (ah.path.destination_mac != mac && device.next_hop(ah.path.destination_gid) == gid) {
        ah.path.destination_mac = mac;
        publish_ah(session, handle, ah);
      }
    });
  }
}

}  // namespace uroce::control
