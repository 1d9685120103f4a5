// Errors of binding and resolving that aren't about the address itself.

#include <unistd.h>

#include <cerrno>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

TEST(CommandsAddress, OnlyOneAddressErrorIsPending) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 0).error, 0);
  EXPECT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 0).error, ENOMEM);
  program.expect_event(channel, kAddrError);
  EXPECT_FALSE(channel.readable());
  EXPECT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 0).error, 0);
  program.expect_event(channel, kAddrError);
}

TEST(CommandsAddress, LowPortsAreForRootAndTheDaemonsUser) {
  Rig rig;
  for (const uid_t uid : {uid_t{0}, ::geteuid()}) {
    CmProgram privileged(rig, uid);
    const ProgramChannel channel = privileged.open_channel();
    const std::uint32_t id = privileged.create_id(channel, 1);
    EXPECT_EQ(privileged.bind(channel, id, "10.0.0.1", kPortUnprivilegedMin - 1).error, 0);
  }
  CmProgram other(rig, ::geteuid() + 1);
  const ProgramChannel channel = other.open_channel();
  const std::uint32_t id = other.create_id(channel, 1);
  EXPECT_EQ(other.bind(channel, id, "10.0.0.1", 1).error, EACCES);
  EXPECT_EQ(other.bind(channel, id, "10.0.0.1", kPortUnprivilegedMin - 1).error, EACCES);
  EXPECT_EQ(other.bind(channel, id, "10.0.0.1", kPortUnprivilegedMin).error, 0);
}

}  // namespace
}  // namespace uroce::control::cm_user
