// Messages, timers and events when memory is missing: what would be handled half isn't begun.

#include <sys/resource.h>

#include <array>
#include <memory>
#include <new>
#include <vector>

#include "base/sanitized.h"
#include "control/cm/mad.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "tests/unit/address_space.h"
#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

// Takes the memory of a process, which may not map more than it has, and the reserve.
class Scarcity {
 public:
  Scarcity() {
    blocks_.reserve(kBlocksMax);
    limit_to(address_space());
    while (blocks_.size() < kBlocksMax) {
      std::unique_ptr<char[]> block(new (std::nothrow) char[kBlock]);
      if (block == nullptr) {
        break;
      }
      blocks_.push_back(std::move(block));
    }
  }
  void end() { limit_to(RLIM_INFINITY); }

 private:
  static constexpr std::size_t kBlock = std::size_t{256} << 10U;
  static constexpr std::size_t kBlocksMax = 1'000;

  static void limit_to(rlim_t bytes) {
    const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
};

class NoMemory : public TwoPrograms {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers need more address space than a limit leaves";
    }
  }
  [[nodiscard]] const cm::Manager& manager() { return rig.connections.manager(); }

  // A REQ from another machine.
  void arrive() {
    const Device& device = rig.card.devices().front();
    Path path;
    path.source_mac = path.destination_mac = device.mac();
    path.source_gid = *parse_ip("10.0.0.9");
    path.destination_gid = *parse_ip("10.0.0.1");
    cm::Req req;
    req.local_id = 9;
    req.service_id = cm::service_id(cm::PortSpace::kTcp, kPort);
    req.qpn = 99;
    req.path_mtu = 3;
    req.primary.local_gid = path.source_gid;
    req.primary.remote_gid = path.destination_gid;
    req.private_data = cm::with_ip_header({.ipv6 = false,
                                           .source_port = 4'000,
                                           .source = path.source_gid,
                                           .destination = path.destination_gid},
                                          {});
    const cm::Mad mad = cm::build_mad(1, req);
    std::array<std::byte, 512> bytes{};
    Frame frame;
    frame.data = bytes.data();
    frame.capacity = bytes.size();
    const Headers headers{.opcode = Opcode::kUdSendOnly,
                          .dest_qpn = kGsiQpn,
                          .deth = {.qkey = kGsiQkey, .source_qpn = kGsiQpn}};
    FrameWriter writer(frame, FrameTemplate(path), headers, mad.size(), 0);
    writer.append(mad.data(), mad.size());
    writer.finish();
    rig.connections.gsi().on_frame(rig.card.devices().front(), {frame.data, frame.length});
  }
  void come_to_the_deadline() {
    rig.now = rig.connections.next_deadline();
    rig.connections.on_time();
  }

  // In processes of their own. 0: success.
  int receive() {
    Scarcity scarcity;
    arrive();
    if (manager().counters().dropped_memory != 1 || rig.connections.ids() != 1) {
      return 1;
    }
    scarcity.end();
    arrive();
    return server_channel.readable() && rig.connections.ids() == 2 ? 0 : 2;
  }
  int let_time_pass() {
    Scarcity scarcity;
    come_to_the_deadline();
    if (manager().counters().repeated != 0 || rig.connections.next_deadline() <= rig.now) {
      return 1;
    }
    come_to_the_deadline();
    scarcity.end();
    come_to_the_deadline();
    return manager().counters().repeated == 1 ? 0 : 2;
  }
  int withdraw() {
    Scarcity scarcity;
    if (client.destroy_id(client_channel, active).error != 0) {
      return 1;
    }
    if (manager().counters().rejects_sent != 1 || manager().counters().rejects_received != 0) {
      return 2;
    }
    scarcity.end();
    come_to_the_deadline();
    return manager().counters().rejects_received == 1 ? 0 : 3;
  }
};

TEST_F(NoMemory, AMessageFromTheNetworkIsDropped) {
  listen(kStream);
  EXPECT_EXIT(std::_Exit(receive()), testing::ExitedWithCode(0), "");
}

TEST_F(NoMemory, WhatIsDueIsDoneLater) {
  listen(kStream);
  ask(kStream);
  EXPECT_EXIT(std::_Exit(let_time_pass()), testing::ExitedWithCode(0), "");
}

TEST_F(NoMemory, WhatACommandSendsIsSentLater) {
  listen(kStream);
  ask(kStream);
  EXPECT_EXIT(std::_Exit(withdraw()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace uroce::control::cm_user
