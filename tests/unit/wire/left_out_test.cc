// Frames that need no ICRC, and frames of which only the headers are in memory that can't change.

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/packet.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

// Calls `check` with a frame of each opcode on each kind of path, of several lengths, and with its
// components.
template <typename Check>
void for_all_frames(const Check& check) {
  Random random(7);
  for (const Opcode opcode : all_opcodes()) {
    for (const PathKind kind : kPathKinds) {
      for (const std::uint32_t wanted : {0U, 5U, 300U, 1'024U}) {
        const Path path = random_path(random, kind);
        const Headers headers = random_headers(random, opcode);
        const Bytes payload = random_bytes(random, possible_payload(opcode, wanted));
        OwnedFrame whole;
        build(whole, path, headers, payload, 1);
        check(whole, path, headers, payload);
      }
    }
  }
}

TEST(LeftOut, OnlyTheIcrcIsMissingAndCanBeFilledIn) {
  for_all_frames(
      [](OwnedFrame& whole, const Path& path, const Headers& headers, const Bytes& payload) {
        OwnedFrame bare;
        bare.frame.icrc_left_out = true;
        build(bare, path, headers, payload, 1);
        ASSERT_EQ(bare.frame.length, whole.frame.length);
        EXPECT_TRUE(std::ranges::equal(bare.bytes().first(bare.frame.length - kIcrcLength),
                                       whole.bytes().first(bare.frame.length - kIcrcLength)));
        ASSERT_EQ(parse(bare.frame), Drop::kNone);
        complete(bare.frame);
        EXPECT_TRUE(std::ranges::equal(bare.bytes(), whole.bytes()));
        EXPECT_FALSE(bare.frame.icrc_left_out);
      });
}

TEST(LeftOut, WithoutTheMarkItIsChecked) {
  for_all_frames(
      [](OwnedFrame& /*whole*/, const Path& path, const Headers& headers, const Bytes& payload) {
        OwnedFrame bare;
        bare.frame.icrc_left_out = true;
        build(bare, path, headers, payload, 1);
        bare.frame.icrc_left_out = false;
        EXPECT_EQ(parse(bare.frame), Drop::kBadIcrc);
      });
}

TEST(Lent, TheLongestHeadersFitIntoTheHead) {
  constexpr std::size_t kInFront = 14 + 4 + 40 + 8;  // Ethernet with a tag, IPv6, UDP
  for (const Opcode opcode : all_opcodes()) {
    EXPECT_LE(kInFront + opcode_info(opcode).header_length, Frame::kHeadBytes);
  }
}

TEST(Lent, IsParsedAndCheckedAsAWholeFrame) {
  for_all_frames([](OwnedFrame& whole, const Path& /*path*/, const Headers& /*headers*/,
                    const Bytes& payload) {
    if (whole.frame.length <= Frame::kHeadBytes) {
      return;
    }
    Bytes elsewhere(whole.bytes().begin(), whole.bytes().end());
    OwnedFrame lent;
    std::copy_n(elsewhere.begin(), Frame::kHeadBytes, lent.frame.data);
    lent.frame.length = whole.frame.length;
    lent.frame.lent = elsewhere.data();
    ASSERT_EQ(parse(whole.frame), Drop::kNone);
    ASSERT_EQ(parse(lent.frame), Drop::kNone);
    EXPECT_EQ(difference(lent.frame.packet, whole.frame.packet), "");
    if (!payload.empty()) {
      EXPECT_GE(lent.frame.packet.payload, elsewhere.data());
      EXPECT_LT(lent.frame.packet.payload, elsewhere.data() + elsewhere.size());
    }
    gather(lent.frame);
    EXPECT_TRUE(std::ranges::equal(lent.bytes(), whole.bytes()));

    elsewhere.back() ^= std::byte{1};
    lent.frame.lent = elsewhere.data();
    EXPECT_EQ(parse(lent.frame), Drop::kBadIcrc);
  });
}

}  // namespace
}  // namespace uroce::test
