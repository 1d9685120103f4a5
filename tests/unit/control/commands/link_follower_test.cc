// Interfaces below ports that disappear and come back: when ports are detached and attached again,
// and what follows a new Ethernet address.

#include "control/commands/link_follower.h"

#include <gtest/gtest.h>

#include "tests/unit/control/commands/interface_port.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

struct LinkRig {
  InterfacePort* port = new InterfacePort;
  Rig rig{std::unique_ptr<Port>(port), 2};
  LinkFollower links{rig.card};
  Device& device = rig.card.devices()[0];
};

// A udp port's link is that of its addresses; the kernel reports nothing when `uroce addr` changes
// them.
TEST(LinkFollower, LooksAtLinksWhenAddressesHaveChanged) {
  LinkRig at;
  ASSERT_NE(at.links.next_check(), 0);
  at.port->present = false;
  at.port->trouble = "the port has no address";
  at.rig.card.follow_addresses(at.device);
  EXPECT_EQ(at.links.next_check(), 0);
  at.links.check();
  EXPECT_EQ(at.port->detached, 1);
  EXPECT_NE(at.links.next_check(), 0);
  at.port->present = true;
  at.rig.card.follow_addresses(at.device);
  at.links.check();
  EXPECT_TRUE(at.device.link_up()) << "not only when it is retried";
}

TEST(LinkFollower, DetachesAPortThatIsInTroubleAndAttachesItWhenItCan) {
  LinkRig at;
  at.port->present = false;
  at.port->trouble = "the interface isn't there";
  at.links.check();
  EXPECT_FALSE(at.device.link_up());
  EXPECT_EQ(at.port->detached, 1);
  EXPECT_FALSE(at.port->attached);
  EXPECT_NE(at.links.next_check(), kNever) << "attaching may fail at first";
  at.links.check();
  EXPECT_FALSE(at.device.link_up());
  EXPECT_EQ(at.port->detached, 1);
  at.port->present = true;
  at.rig.now = at.links.next_check();
  at.links.check();
  EXPECT_TRUE(at.device.link_up());
  EXPECT_TRUE(at.port->attached);
}

// Any change of the kernel's lets links be checked, and telling workers interrupts them.
TEST(LinkFollower, WorkersAreToldOnceThatAPortIsDetached) {
  LinkRig at;
  at.port->present = false;
  at.port->trouble = "the interface isn't there";
  at.links.check();
  const std::uint64_t told = port_changes(at.rig.card);
  EXPECT_EQ(told, at.rig.card.engine().workers());
  for (int i = 0; i < 3; ++i) {
    at.rig.now = at.links.next_check();
    at.links.check();
  }
  EXPECT_EQ(port_changes(at.rig.card), told);
}

// A udp port's sockets stay as they are.
TEST(LinkFollower, WorkersAreNotToldOfALinkWhosePortStays) {
  class AddressesPort final : public SilentPort {
   public:
    [[nodiscard]] PortInfo info() const override {
      PortInfo info = SilentPort::info();
      info.on_interface = true;
      info.link_up = usable;
      info.trouble = usable ? "" : "the port has no address";
      return info;
    }
    bool usable = true;
  };
  auto* const port = new AddressesPort;
  Rig rig{std::unique_ptr<Port>(port), 2};
  LinkFollower links{rig.card};
  Device& device = rig.card.devices()[0];
  port->usable = false;
  rig.card.follow_addresses(device);
  links.check();
  EXPECT_FALSE(device.link_up());
  rig.now = links.next_check();
  links.check();
  port->usable = true;
  rig.now = links.next_check();
  links.check();
  EXPECT_TRUE(device.link_up());
  EXPECT_EQ(port_changes(rig.card), 0U);
}

TEST(LinkFollower, ReopensAnInterfaceThatWasReplacedBetweenTwoLooks) {
  LinkRig at;
  at.port->trouble = "made anew";
  at.links.check();
  EXPECT_EQ(at.port->detached, 1);
  EXPECT_TRUE(at.port->attached);
  EXPECT_TRUE(at.device.link_up());
}

// The second time between its opening and the look at its link.
TEST(LinkFollower, ReopensAnInterfaceThatWasReplacedTwice) {
  LinkRig at;
  at.port->trouble = "made anew";
  at.port->next_trouble = "made anew once more";
  at.links.check();
  EXPECT_FALSE(at.device.link_up());
  at.rig.now = at.links.next_check();
  at.links.check();
  EXPECT_EQ(at.port->detached, 2);
  EXPECT_TRUE(at.device.link_up());
}

TEST(LinkFollower, PathsAndGid0FollowANewEthernetAddress) {
  constexpr EtherAddress kOther{{2, 0, 0, 0, 0, 9}};
  LinkRig at;
  Program program(at.rig);
  program.open();
  const auto qp =
      program.ask(abi::Command::kCreateQp, program.rc_qp(program.make_pd(), program.make_cq()))
          .as<abi::CreateQpReply>();
  QpObject* object = program.session.qps.find(qp.handle);
  ASSERT_NE(object, nullptr);
  Path path;
  path.source_mac = InterfacePort::kMac;
  object->path = path;
  at.port->mac = kOther;
  at.port->trouble = "made anew";
  at.links.check();
  EXPECT_EQ(at.device.mac(), kOther);
  EXPECT_EQ(object->path->source_mac, kOther);
  EXPECT_EQ(object->qp->attributes().path.source_mac, kOther);
  EXPECT_EQ(*at.device.gids().find(0), link_local_gid(kOther));
}

}  // namespace
}  // namespace uroce::control
