#pragma once

// What one program keeps with the connection manager: event channels, ids, multicast memberships.
// Part of a session; its end destroys everything, and the peers learn of it. Control thread only.

#include <cstdint>
#include <memory>

#include "base/handle_table.h"
#include "base/record_socket.h"
#include "base/result.h"
#include "control/cm_user/event_channel.h"
#include "control/cm_user/id.h"
#include "control/cm_user/limits.h"

namespace uroce::control::cm_user {

class Service;

class User {
 public:
  User(Service& service, const Peer& peer) : service_(service), peer_(peer) {}
  ~User();
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  [[nodiscard]] Service& service() { return service_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }

  struct OpenedChannel {
    std::uint32_t handle = 0;
    UniqueFd read_end;
  };
  Result<OpenedChannel> open_channel();
  // Destroys its ids. EINVAL
  Status close_channel(std::uint32_t handle);
  // EINVAL
  [[nodiscard]] Result<EventChannel*> channel(std::uint32_t handle) const {
    return channels_.get(handle);
  }

  // ENOMEM: the program has all ids that it may have.
  Result<Id*> add_id(EventChannel& channel);
  // The id of a request to a listening id; nullptr: there is no room.
  Id* add_requested(Id& listening, const cm::Event& event, const cm::IpHeader& header);
  [[nodiscard]] Id* id(std::uint32_t handle) const { return ids_.find(handle); }
  // Everything of the id: its events, memberships, port, connection (the peer is told).
  void destroy(Id& id);

  // Joins the group on the device, which tells the network. REQUIRES: the id has a device.
  Result<Membership*> add_membership(Id& id, std::uint64_t uid, const Gid& group,
                                     std::uint32_t* handle);
  [[nodiscard]] Membership* membership(std::uint32_t handle) const {
    return memberships_.find(handle);
  }
  void remove_membership(std::uint32_t handle);

 private:
  Service& service_;
  Peer peer_;
  HandleTable<EventChannel> channels_{"event channel"};
  HandleTable<Id> ids_{"id"};
  HandleTable<Membership> memberships_{"membership"};
};

}  // namespace uroce::control::cm_user
