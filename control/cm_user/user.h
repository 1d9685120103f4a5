#pragma once

// One program's state in the connection manager: event channels (each what Linux has as struct
// ucma_file), ids, multicast memberships. Part of a session; its end destroys everything, and the
// peers are told. Control thread only.

#include <cstdint>
#include <memory>

#include "base/handle_table.h"
#include "base/result.h"
#include "base/sockets/record_socket.h"
#include "control/cm_user/event_channel.h"
#include "control/cm_user/id.h"
#include "control/cm_user/limits.h"
#include "shares/account.h"

namespace uroce::control::cm_user {

class Service;

class User {
 public:
  User(Service& service, const Peer& peer, std::shared_ptr<Account> account)
      : service_(service), peer_(peer), account_(std::move(account)) {}
  ~User();
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  [[nodiscard]] Service& service() { return service_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] Account& account() const { return *account_; }

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

  // An event that the program itself put into the id's channel. ENOMEM: too many wait.
  Status add_written(Id& id);
  // It has left the channel.
  void remove_written(Id& id);

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
  std::shared_ptr<Account> account_;
  HandleTable<EventChannel> channels_{"event channel"};
  HandleTable<Id> ids_{"id"};
  HandleTable<Membership> memberships_{"membership"};
  std::uint32_t written_events_ = 0;  // the sum over all ids
};

}  // namespace uroce::control::cm_user
