#include "control/sessions/neighbour_changes.h"

#include <cstddef>
#include <map>
#include <vector>

#include "control/sessions/session.h"

namespace uroce::control {
namespace {

constexpr std::size_t kChangesMax = 64;  // queue pairs per interruption of their worker

// New paths of queue pairs, passed to their workers in batches. A path that control has changed
// reaches its worker: the memory for batches is taken at the beginning, and the destructor repeats
// a call that found none (Mailbox::call needs some while another call is under way). If there is
// none then either, the process ends.
class PathChanges {
 public:
  explicit PathChanges(Engine& engine) : engine_(engine), changes_(engine.workers()) {
    for (std::vector<QpObject*>& changes : changes_) {
      changes.reserve(kChangesMax);
    }
  }
  ~PathChanges() {
    for (std::uint32_t worker = 0; worker < changes_.size(); ++worker) {
      apply(worker);
    }
  }
  PathChanges(const PathChanges&) = delete;
  PathChanges& operator=(const PathChanges&) = delete;

  void add(QpObject& object) {
    const std::uint32_t worker = object.qp->config().worker;
    std::vector<QpObject*>& changes = changes_[worker];
    changes.push_back(&object);
    if (changes.size() == kChangesMax) {
      apply(worker);
      changes.clear();
    }
  }

 private:
  void apply(std::uint32_t index) {
    const std::vector<QpObject*>& changes = changes_[index];
    if (changes.empty()) {
      return;
    }
    engine_.call(index, [&changes](Worker& worker) {
      for (QpObject* object : changes) {
        QpAttributes change;
        change.path = *object->path;
        worker.modify_qp(*object->qp, change, kQpMaskPath);
      }
    });
  }

  Engine& engine_;
  std::vector<std::vector<QpObject*>> changes_;  // by worker
};

// `change` returns whether it has changed a path. If memory runs out, what has followed stays so,
// and the rest does when this is repeated.
template <typename Change>
void change_paths(Card& card, const Device& device, const Change& change) {
  PathChanges changes(card.engine());
  for (const auto& entry : card.sessions()) {
    Session& session = *entry.second;
    if (session.device() != &device) {
      continue;
    }
    session.qps.for_each([&](std::uint32_t, QpObject& object) {
      if (object.path && change(*object.path)) {
        changes.add(object);
      }
    });
    session.address_handles.for_each([&](std::uint32_t handle, AddressHandle& ah) {
      Path path = ah.path;
      if (change(path)) {
        session.addresses().publish(handle, ah.pd->id, path);
        ah.path = path;
      }
    });
  }
}

}  // namespace

void follow_neighbours(Card& card, Device& device, std::span<const Neighbour> moved) {
  std::map<LinkAddress, EtherAddress> now_at;
  for (const Neighbour& neighbour : moved) {
    now_at[neighbour.address] = neighbour.mac;
  }
  change_paths(card, device, [&](Path& path) {
    const auto hop = device.next_hop({path.destination_gid, path.vlan_id()});
    const auto at = hop ? now_at.find(*hop) : now_at.end();
    if (at == now_at.end() || at->second == path.destination_mac) {
      return false;
    }
    path.destination_mac = at->second;
    return true;
  });
}

void follow_moves(Card& card, Device& device) {
  const Time began = card.now();
  const std::vector<Neighbour> moved = device.moves().due(began);
  if (moved.empty()) {
    return;
  }
  try {
    follow_neighbours(card, device, moved);
  } catch (...) {
    device.moves().not_followed(began, card.now());
    throw;
  }
  device.moves().followed(began, card.now());
}

// Also for peers on this same port.
void follow_own_mac(Card& card, const Device& device, const EtherAddress& mac) {
  change_paths(card, device, [&](Path& path) {
    path.source_mac = mac;
    if (device.gids().owns(path.destination_gid)) {
      path.destination_mac = mac;
    }
    return true;
  });
}

}  // namespace uroce::control
