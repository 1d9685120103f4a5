#include "control/sessions/neighbour_changes.h"

#include <algorithm>

#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

// A path's VLAN tag contains its priority besides the VLAN of its neighbour.
TEST(NeighbourChanges, PathsWithAPriorityFollowTheirNeighbour) {
  constexpr EtherAddress kThere{{2, 0, 0, 0, 0, 2}}, kElsewhere{{2, 0, 0, 0, 0, 99}};
  const LinkAddress peer{*parse_ip("10.5.0.2"), 5};
  Rig rig(std::make_unique<SilentPort>(), 1);
  Device& device = rig.card.devices()[0];
  abi::CreateAhRequest request{};
  request.address.sgid_index =
      static_cast<std::uint8_t>(*device.add_address(*parse_prefix("10.5.0.1/24@5")));
  device.on_frame(build_arp_request(kThere, peer, *parse_ip("10.5.0.1")), rig.now);
  Program program(rig);
  program.open();
  request.pd = program.make_pd();
  request.address.is_global = request.address.port = 1;
  request.address.sl = 3;
  std::copy_n(peer.gid.bytes.begin(), 16, request.address.dgid);
  const Answer made = program.ask(abi::Command::kCreateAh, request);
  ASSERT_EQ(made.header.error, 0) << made.message();
  const AddressHandle* ah =
      program.session.address_handles.find(made.as<abi::HandleReply>().handle);
  ASSERT_EQ(ah->path.destination_mac, kThere);

  const Neighbour moved{peer, kElsewhere};
  follow_neighbours(rig.card, device, {&moved, 1});

  EXPECT_EQ(ah->path.destination_mac, kElsewhere);
}

}  // namespace
}  // namespace uroce::control
