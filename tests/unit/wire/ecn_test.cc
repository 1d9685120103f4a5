#include "dataplane/wire/ecn.h"

#include <gtest/gtest.h>

#include <array>

#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"

namespace uroce {
namespace {

constexpr std::uint8_t kDscp = 26;

TEST(Ecn, MarkingBreaksNeitherChecksumNorIcrc) {
  for (const char* address : {"10.0.0.1", "fd00::1"}) {
    for (unsigned flow = 0; flow < 0x100; ++flow) {
      std::array<std::byte, 200> bytes;
      Frame frame;
      frame.data = bytes.data();
      frame.capacity = bytes.size();
      Path path;
      path.source_gid = parse_ip(address).value();
      path.destination_gid = path.source_gid;
      path.tos = with_ecn(kDscp << kDscpShift, Ecn::kCapable0);
      path.flow_label = 0xF'FF00 + flow;
      FrameWriter writer(frame, FrameTemplate(path), {}, 0, static_cast<std::uint16_t>(flow * 257));
      writer.finish();
      ASSERT_EQ(parse(frame), Drop::kNone);
      std::byte* ip = frame.data + 14;
      EXPECT_EQ(read_ecn(ip), Ecn::kCapable0);
      write_ecn(ip, Ecn::kCongested);
      ASSERT_EQ(parse(frame), Drop::kNone) << address << " " << flow;
      EXPECT_EQ(read_ecn(ip), Ecn::kCongested);
      EXPECT_EQ(frame.packet.tos, kDscp << kDscpShift | 3U) << "the DSCP is unchanged";
    }
  }
}

}  // namespace
}  // namespace uroce
