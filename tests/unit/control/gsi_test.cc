#include "control/cm_user/gsi.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "control/cm_user/report.h"
#include "dataplane/engine/threads/mailbox.h"
#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

struct KeptMads final : MadSink {
  struct Entry {
    Path reply_path;
    std::uint32_t source_qpn;
    std::vector<std::byte> bytes;
  };
  void on_mad(Device& /*device*/, const ReceivedMad& mad) override {
    entries.push_back({mad.reply_path, mad.source_qpn, {mad.bytes.begin(), mad.bytes.end()}});
  }
  std::vector<Entry> entries;
};

class GsiTest : public testing::Test {
 protected:
  GsiTest() { EXPECT_TRUE(rig_.card.engine().start()); }
  ~GsiTest() override { rig_.card.engine().stop(); }

  // Handles the next notice as the server would.
  void serve_one() {
    pollfd waiting{.fd = rig_.card.engine().notice_descriptor(), .events = POLLIN, .revents = 0};
    Notice notice;
    // The descriptor stays readable until the queue has been found empty.
    while (!rig_.card.engine().next_notice(&notice)) {
      ASSERT_EQ(poll(&waiting, 1, 10'000), 1);
    }
    ASSERT_EQ(notice.kind, Notice::Kind::kMad);
    gsi_.on_frame(device_, notice.bytes);
  }

  Path path() const {
    Path path;
    path.source_mac = path.destination_mac = device_.mac();
    path.source_gid = path.destination_gid = *parse_ip("10.0.0.1");
    return path;
  }

  Rig rig_{1};
  Gsi& gsi_ = rig_.connections.gsi();
  Device& device_ = rig_.card.devices().front();
  KeptMads mads_;
};

TEST_F(GsiTest, AMadIsSentAndReceived) {
  gsi_.set_sink(&mads_);
  std::array<std::byte, kMadLength> mad{};
  mad.back() = std::byte{9};
  ASSERT_TRUE(gsi_.send(device_, path(), kGsiQpn, mad));
  serve_one();
  ASSERT_EQ(mads_.entries.size(), 1U);
  const auto& got = mads_.entries.front();
  EXPECT_TRUE(std::equal(mad.begin(), mad.end(), got.bytes.begin(), got.bytes.end()));
  EXPECT_EQ(got.source_qpn, kGsiQpn);
  EXPECT_EQ(got.reply_path.destination_gid, *parse_ip("10.0.0.1"));
  EXPECT_EQ(got.reply_path.destination_mac, device_.mac());
  EXPECT_EQ(gsi_.counters().sent, 1U);
  EXPECT_EQ(gsi_.counters().received, 1U);
}

TEST_F(GsiTest, AMadIsAnsweredOnTheReplyPath) {
  gsi_.set_sink(&mads_);
  const std::array<std::byte, kMadLength> mad{};
  ASSERT_TRUE(gsi_.send(device_, path(), kGsiQpn, mad));
  serve_one();
  ASSERT_TRUE(gsi_.send(device_, mads_.entries.front().reply_path, kGsiQpn, mad));
  serve_one();
  EXPECT_EQ(mads_.entries.size(), 2U);
}

TEST_F(GsiTest, WithoutASinkMadsAreCounted) {
  gsi_.set_sink(nullptr);
  ASSERT_TRUE(gsi_.send(device_, path(), kGsiQpn, std::array<std::byte, kMadLength>{}));
  serve_one();
  EXPECT_EQ(gsi_.counters().unclaimed, 1U);
}

TEST_F(GsiTest, AFrameThatChangedSinceTheWorkersCheckIsIgnored) {
  gsi_.set_sink(&mads_);
  gsi_.on_frame(device_, std::vector<std::byte>(64));
  EXPECT_TRUE(mads_.entries.empty());
}

// Nothing sends them: the engine's workers don't run.
TEST(Gsi, MadsThatTheWorkerHasNoRoomForAreCountedInTheReport) {
  Rig rig(1);
  Device& device = rig.card.devices().front();
  const std::array<std::byte, kMadLength> mad{};
  for (std::uint32_t i = 0; i < Mailbox::kFramesMax; ++i) {
    ASSERT_TRUE(rig.connections.gsi().send(device, Path{}, kGsiQpn, mad));
  }
  EXPECT_FALSE(rig.connections.gsi().send(device, Path{}, kGsiQpn, mad));
  cm_user::Report report(rig.connections, [](const cm_user::User*) { return true; });
  std::string all;
  while (!report.done()) {
    all += report.next(1);
  }
  EXPECT_NE(all.find("\"send_refused\":1,"), std::string::npos) << all;
}

}  // namespace
}  // namespace uroce::control
