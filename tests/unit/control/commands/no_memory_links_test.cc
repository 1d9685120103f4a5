// A link's change, and that of its Ethernet address, reach everything also if memory runs out
// meanwhile.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/sanitized.h"
#include "control/commands/link_follower.h"
#include "tests/unit/control/commands/interface_port.h"
#include "tests/unit/control/program.h"
#include "tests/unit/failing_allocations.h"
#include "tests/unit/in_a_child.h"

namespace uroce::control {
namespace {

using test::until_failure;

enum Outcome : int {
  kUndisturbed,
  kRecovered,
  kLinkLost,
  kAddressLost,
  kPathLost,
  kNotTold,
  kEndedByATask
};

// In a process of its own: an interface has been made anew, with another Ethernet address, and
// allocation number `failing` of the check that finds it fails.
Outcome replace_interface(int failing) {
  constexpr EtherAddress kOther{{2, 0, 0, 0, 0, 9}};
  auto* const port = new InterfacePort;
  Rig rig{std::unique_ptr<Port>(port), 2};
  LinkFollower links{rig.card};
  const Device& device = rig.card.devices()[0];
  Program program(rig);
  program.open();
  const auto qp =
      program.ask(abi::Command::kCreateQp, program.rc_qp(program.make_pd(), program.make_cq()))
          .as<abi::CreateQpReply>();
  QpObject* const object = program.session.qps.find(qp.handle);
  Path path;
  path.source_mac = InterfacePort::kMac;
  object->path = path;
  port->mac = kOther;
  port->trouble = "the interface has been made anew";  // long enough for info() to allocate
  bool told = true;
  port->before_attach = [&] {
    told = told && (port->attached || port_changes(rig.card) >= rig.card.engine().workers());
  };
  until_failure = failing;
  try {
    links.check();
  } catch (const std::bad_alloc&) {
  }
  const bool disturbed = until_failure < 0;
  until_failure = -1;
  for (int i = 0; i < 3; ++i) {
    if (links.next_check() != kNever) {
      rig.now = std::max(rig.now, links.next_check());
      links.check();
    }
  }
  if (!told) {
    return kNotTold;  // a worker may have been using the device that attaching closed
  }
  if (!device.link_up() || port->detached == 0 || !port->attached) {
    return kLinkLost;
  }
  if (device.mac() != kOther || *device.gids().find(0) != link_local_gid(kOther)) {
    return kAddressLost;
  }
  if (object->path->source_mac != kOther || object->qp->attributes().path.source_mac != kOther) {
    return kPathLost;
  }
  return disturbed ? kRecovered : kUndisturbed;
}

TEST(NoMemoryLinks, WhatFollowsAReplacedInterfaceIsDoneLater) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers have allocators of their own";
  }
  constexpr int kAllocationsMax = 1'000;
  int recovered = 0;
  for (int failing = 0; failing < kAllocationsMax; ++failing) {
    const int outcome =
        test::in_a_child(kEndedByATask, [failing] { return replace_interface(failing); });
    if (outcome == kUndisturbed) {
      EXPECT_GT(recovered, 5);
      return;
    }
    EXPECT_TRUE(outcome == kRecovered || outcome == kEndedByATask)
        << "allocation " << failing << ": outcome " << outcome;
    recovered += outcome == kRecovered ? 1 : 0;
  }
  FAIL() << "it never ends";
}

}  // namespace
}  // namespace uroce::control
