// Queue pairs of one worker that are each other's peers need no frames (qp/direct/README.md). This
// file determines whether a queue pair's peer is local, by where its frames would go.

#include <algorithm>

#include "base/prefetch.h"
#include "dataplane/engine/worker_state.h"

namespace uroce {

// Whether frames of this path would come back to this port, and be taken for its own.
bool Worker::State::is_own_path(PortState& port, const Path& path) {
  const bool comes_back = path.destination_mac == port.mac || (port.loops_back && port.any_mac);
  return comes_back && is_own_address(port, LinkAddress(path.destination_gid, path.vlan_id()));
}

// Whether copy time can be charged to one user or the other, and no user has to wait.
bool Worker::State::may_copy_between(const QpEntry& one, const QpEntry& other) const {
  const bool same_user = one.qp->config().user == other.qp->config().user;
  return (same_user || !stalls.watches(now)) && !must_wait(one) && !must_wait(other);
}

// The queue pair is next to send: prefetches what its peer, and the peer of the one behind it, will
// need.
void Worker::State::prefetch_local_peer(const QpEntry& entry) const {
  if (entry.next != nullptr) {
    prefetch_line(entry.next->local_peer);  // its first line is enough
  }
  if (entry.local_peer != nullptr) {  // the entry exists, though perhaps no longer its local peer
    entry.local_peer->qp->prefetch_executing();
  }
}

// Called before and after anything that may make two queue pairs local peers, or end that. The
// relation is symmetric, since each is the other's peer.
void Worker::State::forget_local_peers(QpEntry& entry) {
  QpEntry* const peer = table.find(entry.qp->attributes().dest_qpn);
  for (QpEntry* const one : {&entry, peer}) {
    if (one != nullptr) {
      one->local_peer = nullptr;
      one->local_peer_changes = 0;
    }
  }
  entry.had_local_peer = false;
}

// Whether its peer was a queue pair of this worker and was removed: nobody will answer it any more.
// A number is free for other queue pairs long after (control/sessions/number_pool.h).
bool Worker::State::peer_is_destroyed(const QpEntry& entry) {
  const QpAttributes& attributes = entry.qp->attributes();
  return entry.had_local_peer && table.find(attributes.dest_qpn) == nullptr &&
         is_own_path(*ports[entry.port], attributes.path);
}

// The entry of the queue pair's peer, if frames would come back to it; nullptr otherwise.
QpEntry* Worker::State::find_local_peer(PortState& port, const Qp& qp) {
  QpEntry* const peer = table.find(qp.attributes().dest_qpn);
  return peer != nullptr && qp.is_local_peer(*peer->qp) &&
                 is_own_path(port, qp.attributes().path) &&
                 is_own_path(port, peer->qp->attributes().path)
             ? peer
             : nullptr;
}

// The entry of the queue pair's peer, if it may be reached without frames now; nullptr otherwise.
// Frames of the peer that wait for memory, or for an earlier frame, come first.
QpEntry* Worker::State::usable_local_peer(PortState& port, QpEntry& entry) {
  if (!config.direct || port.wants_frames || capture != nullptr) {
    return nullptr;
  }
  if (entry.local_peer_changes != address_changes) {
    entry.local_peer = find_local_peer(port, *entry.qp);
    entry.local_peer_changes = address_changes;
    entry.had_local_peer |= entry.local_peer != nullptr;
  }
  QpEntry* const peer = entry.local_peer;
  return peer != nullptr && !peer->parks(Role::kResponder) &&
                 !peer->has_out_of_order(Role::kResponder) && may_copy_between(entry, *peer)
             ? peer
             : nullptr;
}

}  // namespace uroce
