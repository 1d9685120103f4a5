#pragma once

// Sends and receives the connection manager's MADs through QP1: resolves the peer's Ethernet
// address and holds MADs until that is done. Control thread only.

#include <deque>
#include <functional>

#include "control/cm/manager.h"
#include "control/cm_user/gsi.h"
#include "control/cm_user/host.h"

namespace uroce::control::cm_user {

class MadPort final : public MadSink {
 public:
  using Receive = std::function<void(const cm::Route&, std::span<const std::byte>)>;

  // `receive` gets each incoming MAD. Host and Gsi outlive this.
  MadPort(const Host& host, Gsi& gsi, Receive receive)
      : host_(host), gsi_(gsi), receive_(std::move(receive)) {}

  void send(const cm::Outgoing& outgoing);
  // A device has resolved, or given up, addresses: those that wait must be retried.
  void on_addresses_settled();
  void on_mad(Device& device, const ReceivedMad& mad) override;

 private:
  // MADs that wait for an address; beyond that they are dropped, and the protocol resends them.
  static constexpr std::size_t kWaitingMax = 1'024;
  enum class [[nodiscard]] Attempt : std::uint8_t{kDone, kPending};
  Attempt attempt(const cm::Outgoing& outgoing);

  const Host& host_;
  Gsi& gsi_;
  Receive receive_;
  std::deque<cm::Outgoing> waiting_;
};

}  // namespace uroce::control::cm_user
