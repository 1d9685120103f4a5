// A peer's new Ethernet address reaches all paths to it also if memory runs out meanwhile.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "base/sanitized.h"
#include "control/sessions/neighbour_changes.h"
#include "tests/unit/control/program.h"
#include "tests/unit/failing_allocations.h"
#include "tests/unit/in_a_child.h"

namespace uroce::control {
namespace {

using test::until_failure;

enum class Followed : int {
  kUndisturbed,
  kLater,
  kQpLost,
  kAddressHandleLost,
  kTooSoon,
  kEndedInATask
};

// In a process of its own: a peer of a queue pair and of an address handle has moved, and
// allocation number `failing` of what follows it fails.
Followed follow_a_move(int failing) {
  constexpr EtherAddress kThere{{2, 0, 0, 0, 0, 2}}, kElsewhere{{2, 0, 0, 0, 0, 99}};
  const Gid peer = *parse_ip("10.0.0.2");
  Rig rig(std::make_unique<SilentPort>(), 2);
  Device& device = rig.card.devices()[0];
  device.on_frame(build_arp_request(kThere, peer, *parse_ip("10.0.0.1")), rig.now);
  Program program(rig);
  program.open();
  const std::uint32_t pd = program.make_pd();
  abi::CreateAhRequest request{};
  request.pd = pd;
  request.address.is_global = request.address.port = 1;
  request.address.sgid_index = 1;
  std::copy_n(peer.bytes.begin(), 16, request.address.dgid);
  const auto made = program.ask(abi::Command::kCreateAh, request).as<abi::HandleReply>();
  const AddressHandle* const ah = program.session.address_handles.find(made.handle);
  const auto published = [&] { return program.session.addresses().table().find(made.handle); };
  const AddressVector* const before = published();
  std::array<QpObject*, 2> qps{};
  for (QpObject*& qp : qps) {
    const Answer answer =
        program.ask(abi::Command::kCreateQp, program.rc_qp(pd, program.make_cq()));
    qp = program.session.qps.find(answer.as<abi::CreateQpReply>().handle);
    qp->path = ah->path;
  }
  device.on_frame(build_arp_request(kElsewhere, peer, *parse_ip("10.0.0.1")), rig.now);
  constexpr Duration kTaken = kNanosecondsPerSecond;  // until memory runs out
  const Time began = rig.now;
  rig.card.set_clock([&] { return until_failure < 0 ? began + kTaken : began; });
  until_failure = failing;
  try {
    follow_moves(rig.card, device);
  } catch (const std::bad_alloc&) {
  }
  const bool disturbed = until_failure < 0;
  until_failure = -1;
  rig.card.set_clock([&rig] { return rig.now; });
  if (const Time next = device.moves().next_deadline(); next != kNever) {
    // Making the list, which is the first allocation, takes no time.
    if (failing > 0 && next < began + kTaken + NeighbourMoves::kRestFactor * kTaken) {
      return Followed::kTooSoon;
    }
    rig.now = std::max(rig.now, next);
    follow_moves(rig.card, device);
  }
  for (const QpObject* qp : qps) {
    if (qp->path->destination_mac != kElsewhere ||
        qp->qp->attributes().path.destination_mac != kElsewhere) {
      return Followed::kQpLost;
    }
  }
  if (ah->path.destination_mac != kElsewhere || published() == before) {
    return Followed::kAddressHandleLost;
  }
  return disturbed ? Followed::kLater : Followed::kUndisturbed;
}

TEST(NoMemoryMoves, AMovedPeerIsFollowedLater) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers have allocators of their own";
  }
  constexpr int kAllocationsMax = 1'000;
  int later = 0;
  for (int failing = 0; failing < kAllocationsMax; ++failing) {
    const auto outcome = static_cast<Followed>(test::in_a_child(
        static_cast<int>(Followed::kEndedInATask), [failing] { return follow_a_move(failing); }));
    if (outcome == Followed::kUndisturbed) {
      EXPECT_GT(later, 5);
      return;
    }
    EXPECT_TRUE(outcome == Followed::kLater || outcome == Followed::kEndedInATask)
        << "allocation " << failing << ": outcome " << static_cast<int>(outcome);
    later += outcome == Followed::kLater ? 1 : 0;
  }
  FAIL() << "it never ends";
}

}  // namespace
}  // namespace uroce::control
