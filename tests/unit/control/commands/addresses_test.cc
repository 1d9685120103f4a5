// Addresses that are added and removed at run time by the uroce tool.

#include "control/commands/address_changes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "abi/address_records.h"
#include "control/ip/limits.h"
#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

abi::ReplyHeader change_on(Rig& rig, const char* prefix, bool add, Peer peer = {1, 0, 0},
                           const char* device = "") {
  abi::ChangeAddressRequest request{};
  std::strcpy(request.prefix, prefix);
  std::strcpy(request.device, device);
  request.add = add ? 1 : 0;
  Conversation conversation(rig.services, 99, peer);
  conversation.receive(make_record(abi::Command::kChangeAddress, request));
  abi::ReplyHeader reply;
  std::memcpy(&reply, conversation.outbox().front().bytes.data(), sizeof(reply));
  return reply;
}

class AddressesTest : public ::testing::Test {
 protected:
  int change(const char* prefix, bool add, Peer peer = {1, 0, 0}, const char* device = "") {
    return change_on(rig, prefix, add, peer, device).error;
  }
  Device& device() { return rig.card.devices().front(); }

  Rig rig;
};

TEST_F(AddressesTest, KeepTheirIndices) {
  EXPECT_EQ(change("10.0.0.7/24", true), 0);
  EXPECT_EQ(*device().gids().find(3), *parse_ip("10.0.0.7"));
  EXPECT_EQ(change("10.0.0.1", false), 0);
  EXPECT_EQ(device().gids().find(1), nullptr);
  EXPECT_EQ(*device().gids().find(3), *parse_ip("10.0.0.7"));
  EXPECT_FALSE(device().gids().owns(*parse_ip("10.0.0.1")));
  EXPECT_FALSE(device().gids().owns(Gid{}));
  EXPECT_EQ(device().gids().addresses().size(), 3U);
  // The next address gets the free index.
  EXPECT_EQ(change("10.0.0.8/24", true), 0);
  EXPECT_EQ(*device().gids().find(1), *parse_ip("10.0.0.8"));
}

TEST_F(AddressesTest, ImpossibleChangesAreRefused) {
  EXPECT_EQ(change("10.0.0.1/24", true), EEXIST);
  EXPECT_EQ(change("10.0.0.77", false), ENOENT);
  EXPECT_EQ(change("nonsense", true), EINVAL);
  EXPECT_EQ(change("10.0.0.9/24", true, {1, 0, 0}, "uroce9"), ENODEV);
  const std::string own = to_string(*device().gids().find(0));
  EXPECT_EQ(change(own.c_str(), false), EPERM);
}

// On a port that resolves neighbours: a prefix of full length would have no on-link peers.
TEST_F(AddressesTest, NeedAPrefixLengthOnAPortWithAWire) {
  Rig wired(std::make_unique<SilentPort>(), 1);
  const abi::ReplyHeader reply = change_on(wired, "10.0.0.9", true);
  EXPECT_EQ(reply.error, EINVAL);
  EXPECT_NE(std::string(reply.message).find("say 10.0.0.9/24"), std::string::npos) << reply.message;
  EXPECT_EQ(change_on(wired, "10.0.0.9/24", true).error, 0);
  EXPECT_EQ(change_on(wired, "10.0.0.9", false).error, 0);
  EXPECT_EQ(change("10.0.0.9", true), 0) << "a loopback port";
}

TEST_F(AddressesTest, OnlyRootAndTheDaemonsUserMayChangeThem) {
  EXPECT_EQ(change("10.0.0.9/24", true, {1, 12345, 12345}), EPERM);
  EXPECT_EQ(change("10.0.0.9/24", true, {1, ::geteuid(), 0}), 0);
}

TEST_F(AddressesTest, AreBounded) {
  for (int i = 0; i < 200; ++i) {
    const std::string prefix = "10.9.0." + std::to_string(i) + "/24";
    const int error = change(prefix.c_str(), true);
    EXPECT_EQ(error, i < static_cast<int>(kGidsMax) - 3 ? 0 : ENOSPC) << i;
  }
}

}  // namespace
}  // namespace uroce::control
