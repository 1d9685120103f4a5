#include "control/sessions/teardown.h"

#include <array>
#include <cstddef>
#include <span>

#include "control/sessions/card.h"
#include "control/sessions/session.h"
#include "control/sessions/xrc.h"
#include "mmu/mirror/mirror.h"

namespace uroce::control {
namespace {

// Unbinds the session's windows of type 2 from a queue pair that is about to be destroyed.
// Otherwise they would be accessible through a later queue pair with the same number.
void unbind_windows(Session& session, std::uint32_t qpn) {
  session.windows.for_each([&](std::uint32_t /*handle*/, const MemoryWindow& window) {
    session.card().keys().windows().release_qp(window.key, qpn);
  });
}

// The peer isn't notified: packets for the queue pair are dropped as unknown_qp until the peer's
// retries are exhausted.
void remove_own_qp(Session& session, QpObject& object) {
  const QpConfig config = object.qp->config();
  while (!object.groups.empty()) {
    session.card().groups().detach(object, Gid(*object.groups.begin()));
  }
  SessionDoorbells& bells = session.bells(config.worker);
  session.card().engine().call(config.worker, [&](Worker& worker) {
    if (!session.ending()) {  // nothing is sent for a program that has ended
      worker.send_posted(*object.qp);
    }
    worker.remove_qp(*object.qp);
    bells.slots[config.doorbell_slot] = nullptr;
  });
  if (!session.ending()) {  // otherwise they are destroyed too
    unbind_windows(session, config.qpn);
  }
  --object.pd->users;
  --object.send_cq->users;
  --object.recv_cq->users;
  if (object.srq != nullptr) {
    --object.srq->users;
  }
}

// What a window's removal leaves to be done when its key is gone.
void release_mw(Session& session, std::uint32_t handle) {
  const std::unique_ptr<MemoryWindow> window = session.windows.remove(handle);
  --window->pd->users;
}

// The same for a region.
void release_region(Session& session, std::uint32_t handle) {
  const std::unique_ptr<MemoryRegion> region = session.regions.remove(handle);
  if (session.mirror() != nullptr) {
    session.mirror()->statistics().forget(region->key);
  }
  session.on_demand_regions -= region->on_demand ? 1 : 0;
  --region->pd->users;
  if (region->dm != nullptr) {
    --region->dm->users;
  }
}

// Removes all objects of a table by `remove_all` of their keys and `release` of each. Each
// remove_all() waits until all workers have ended a turn, so it is given as many as it takes.
template <typename Object, typename RemoveAll, typename Release>
void remove_keys(const HandleTable<Object>& objects, RemoveAll&& remove_all, Release&& release) {
  std::array<std::uint32_t, kKeysAtOnce> keys{};
  std::array<std::uint32_t, kKeysAtOnce> handles{};
  std::size_t count = 0;
  const auto remove_some = [&] {
    remove_all(std::span(keys).first(count));
    for (const std::uint32_t handle : std::span(handles).first(count)) {
      release(handle);
    }
    count = 0;
  };
  objects.for_each([&](std::uint32_t handle, const Object& object) {
    if (count == kKeysAtOnce) {
      remove_some();
    }
    keys[count] = object.key;
    handles[count++] = handle;
  });
  remove_some();
}

}  // namespace

void remove_qp(Session& session, std::uint32_t handle) {
  QpObject& object = *session.qps.find(handle);
  if (object.target) {
    release_handle(session, handle, object);
  } else {
    remove_own_qp(session, object);
  }
  session.events().forget(ProgramEvents::Subject::kQp, object.cookie);
  session.qps.remove(handle);
}

void remove_srq(Session& session, std::uint32_t handle) {
  SrqObject& srq = *session.srqs.find(handle);
  if (srq.xrcd != nullptr) {
    if (!session.ending()) {  // otherwise it has left, with all others
      leave_xrc_domain(session.card().engine(), srq);
    }
    --srq.xrcd->users;
    --srq.cq->users;
  }
  --srq.pd->users;
  session.events().forget(ProgramEvents::Subject::kSrq, srq.cookie);
  session.srqs.remove(handle);
}

void remove_srqs(Session& session) {
  leave_xrc_domains(session);
  session.srqs.for_each(
      [&](std::uint32_t handle, const SrqObject&) { remove_srq(session, handle); });
}

void remove_cq(Session& session, std::uint32_t handle) {
  CqObject& cq = *session.cqs.find(handle);
  Card& card = session.card();
  for (std::uint32_t worker = 0; worker < card.engine().workers(); ++worker) {
    card.engine().call(worker, [&](Worker& w) { w.forget(*cq.queue); });
  }
  session.events().forget(ProgramEvents::Subject::kCq, cq.cookie);
  if (cq.channel != nullptr) {
    --cq.channel->users;
  }
  session.cqs.remove(handle);
}

void remove_channel(Session& session, std::uint32_t handle) { session.channels.remove(handle); }

void remove_mw(Session& session, std::uint32_t handle) {
  session.card().keys().windows().remove(session.windows.find(handle)->key);
  release_mw(session, handle);
}

void remove_mws(Session& session) {
  remove_keys(
      session.windows,
      [&](std::span<const std::uint32_t> keys) {
        session.card().keys().windows().remove_all(keys);
      },
      [&](std::uint32_t handle) { release_mw(session, handle); });
}

void remove_region(Session& session, std::uint32_t handle) {
  session.card().keys().remove(session.regions.find(handle)->key);
  release_region(session, handle);
}

// Windows of another session, which imported the protection domain, may still be bound to any of
// them. They are unbound in one pass over the daemon's windows, whereas removals would make one for
// each region; after it at most one region per worker, to which that was just binding, has a window
// left.
void remove_regions(Session& session) {
  KeyTable& keys = session.card().keys();
  bool bound = false;
  session.regions.for_each([&](std::uint32_t /*handle*/, const MemoryRegion& region) {
    bound = !keys.retire(region.key) || bound;
  });
  if (bound) {
    keys.windows().release_retired();
  }
  remove_keys(
      session.regions, [&](std::span<const std::uint32_t> some) { keys.remove_all(some); },
      [&](std::uint32_t handle) { release_region(session, handle); });
}

void remove_dm(Session& session, std::uint32_t handle) { session.device_memories.remove(handle); }

void remove_ah(Session& session, std::uint32_t handle) {
  session.addresses().withdraw(handle);
  --session.address_handles.find(handle)->pd->users;
  session.address_handles.remove(handle);
}

void remove_xrcd(Session& session, std::uint32_t handle) { session.xrcds.remove(handle); }

void remove_pd(Session& session, std::uint32_t handle) { session.pds.remove(handle); }

}  // namespace uroce::control
