#pragma once

// One program's state in the connection manager: event channels (struct ucma_file in Linux), ids,
// multicast memberships. Part of a session; when it ends, all ids are destroyed and their peers
// notified. Control thread only.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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
  using Note = std::function<void(std::string)>;  // a line in the program's error log

  User(Service& service, const Peer& peer, std::shared_ptr<Account> account, Note note)
      : service_(service), peer_(peer), account_(std::move(account)), note_(std::move(note)) {}
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

  // ENOMEM: the program has reached its limit of ids.
  Result<Id*> add_id(EventChannel& channel);
  // Adds an id for a request to a listening id. ENOMEM: a limit is reached.
  Result<Id*> add_requested(Id& listening, const cm::Event& event, const cm::IpHeader& header);
  // For want of such an id a request to the listening id was refused: says so in the program's
  // error log, and now and then in the daemon's log.
  void log_refused_request(const Id& listening, const Error& error) const;
  [[nodiscard]] Id* id(std::uint32_t handle) const { return ids_.find(handle); }
  // Destroys the id with its events, memberships, port and connection (the peer is notified, if
  // there is memory for that). Needs none itself: a program's end can't fail. REQUIRES: the program
  // has fetched it, or its channel's events are forgotten.
  void destroy(Id& id) noexcept;
  // Destroys an id that the program hasn't fetched, with its event. A peer may end thousands at
  // once, so the cost depends on nothing else. REQUIRES: id.unfetched
  void withdraw(Id& id) noexcept;

  // Counts an event that the program has written to the id's channel. ENOMEM: too many are queued.
  Status add_written(Id& id);
  // Such an event has left the channel.
  void remove_written(Id& id);

  // Joins the group on the device, which reports it to the network. REQUIRES: the id has a device.
  Result<Membership*> add_membership(Id& id, std::uint64_t uid, const Gid& group,
                                     std::uint32_t* handle);
  [[nodiscard]] Membership* membership(std::uint32_t handle) const {
    return memberships_.find(handle);
  }
  void remove_membership(std::uint32_t handle) noexcept;

 private:
  void remove(Id& id) noexcept;
  std::unique_ptr<Membership> leave_group(std::uint32_t handle) noexcept;

  Service& service_;
  Peer peer_;
  std::shared_ptr<Account> account_;
  Note note_;
  HandleTable<EventChannel> channels_{"event channel"};
  HandleTable<Id> ids_{"id"};
  HandleTable<Membership> memberships_{"membership"};
  std::uint32_t written_events_ = 0;  // the sum over all ids
};

}  // namespace uroce::control::cm_user
