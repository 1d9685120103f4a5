#include "control/sessions/neighbour_changes.h"

#include "control/sessions/session.h"

namespace uroce::control {

void follow_neighbour(Card& card, Device& device, const Device::Neighbour& neighbour) {
  const EtherAddress& mac = neighbour.mac;
  const auto leads_there = [&](const Path& path) {
    return path.destination_mac != mac &&
           device.next_hop({path.destination_gid, path.vlan_id()}) == neighbour.address;
  };
  for (const auto& entry : card.sessions()) {
    Session& session = *entry.second;
    if (session.device() != &device) {
      continue;
    }
    session.qps.for_each([&](std::uint32_t, QpObject& object) {
      if (!object.path || !leads_there(*object.path)) {
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
      if (leads_there(ah.path)) {
        ah.path.destination_mac = mac;
        session.addresses().publish(handle, ah);
      }
    });
  }
}

}  // namespace uroce::control
