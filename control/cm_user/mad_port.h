#pragma once

// The way of the connection manager's MADs to and from QP 1: finds the peer's Ethernet address, and
// keeps what must wait for it. Control thread only.

#include <deque>
#include <functional>

#include "control/cm/manager.h"
#include "control/cm_user/gsi.h"
#include "control/cm_user/host.h"

namespace uroce::control::cm_user {

class MadPort final : public MadSink {
 public:
  using Receive = std::function<void(const cm::Route&, std::span<const std::byte>)>;

  // `receive` takes what comes. Host and QP1 outlive this.
  MadPort(const Host& host, Gsi& gsi, Receive receive)
      : host_(host), gsi_(gsi), receive_(std::move(receive)) {}

  void send(const cm::Outgoing& outgoing);
  // A device says that somebody who waits for an address must look again.
  void on_addresses_settled();
  void on_mad(Device& device, const ReceivedMad& mad) override;

 private:
  // What waits is sent again by the protocol if it is dropped here.
  static constexpr std::size_t kWaitingMax = 1'024;
  enum class [[nodiscard]] Attempt : std::uint8_t{kDone, kPending};
  Attempt attempt(const cm::Outgoing& outgoing);

  const Host& host_;
  Gsi& gsi_;
  Receive receive_;
  std::deque<cm::Outgoing> waiting_;
};

}  // namespace uroce::control::cm_user
