// Events that a program writes into its own channel (rdma_write_cm_event of librdmacm 60 and
// later).

#include <cerrno>
#include <vector>

#include "control/cm_user/limits.h"
#include "control/cm_user/ucm_commands.h"
#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

constexpr std::uint64_t kUid = 5;

class WritingEvents : public testing::Test {
 protected:
  CmAnswer write(EventNumber event, std::uint32_t status = 0) {
    return program.command(
        channel, kWriteEvent,
        WriteEvent{id, 0, static_cast<std::uint32_t>(event), status, {0x11, 0x22}});
  }

  Rig rig;
  CmProgram program{rig};
  ProgramChannel channel = program.open_channel();
  std::uint32_t id = program.create_id(channel, kUid);
};

TEST_F(WritingEvents, AreReadWithStatusAndArgument) {
  for (const EventNumber number : {EventNumber::kUser, EventNumber::kInternal}) {
    ASSERT_EQ(write(number, 7).error, 0);
    const auto event = program.expect_event(channel, number);
    EXPECT_EQ(event.uid, kUid);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.status, 7U);
    std::uint32_t argument[2];
    std::memcpy(argument, &event.param, sizeof(argument));
    EXPECT_EQ(argument[0], 0x11U);
    EXPECT_EQ(argument[1], 0x22U);
  }
  EXPECT_FALSE(channel.readable());
}

TEST_F(WritingEvents, OtherEventsCannotBeWritten) {
  EXPECT_EQ(write(EventNumber::kEstablished).error, EINVAL);
  EXPECT_EQ(write(EventNumber::kAddrinfoResolved).error, EINVAL);
  EXPECT_FALSE(channel.readable());
}

TEST_F(WritingEvents, PendingOnesAreBounded) {
  for (std::uint32_t i = 0; i < kWrittenEventsMax; ++i) {
    ASSERT_EQ(write(EventNumber::kUser).error, 0);
  }
  EXPECT_EQ(write(EventNumber::kInternal).error, ENOMEM);
  program.expect_event(channel, EventNumber::kUser);
  EXPECT_EQ(write(EventNumber::kInternal).error, 0);
}

TEST_F(WritingEvents, PendingOnesOfAProgramAreBounded) {
  std::vector<std::uint32_t> ids;
  const auto write_to = [&](std::uint32_t to) {
    return program
        .command(channel, kWriteEvent,
                 WriteEvent{to, 0, static_cast<std::uint32_t>(EventNumber::kUser), 0, {}})
        .error;
  };
  while (ids.size() * kWrittenEventsMax < kWrittenEventsOfProgramMax) {
    ids.push_back(program.create_id(channel, kUid + 1 + ids.size()));
    for (std::uint32_t i = 0; i < kWrittenEventsMax; ++i) {
      ASSERT_EQ(write_to(ids.back()), 0);
    }
  }
  EXPECT_EQ(write(EventNumber::kUser).error, ENOMEM);
  EXPECT_EQ(program.destroy_id(channel, ids.back()).error, 0);  // its events are dropped with it
  EXPECT_EQ(write(EventNumber::kUser).error, 0);
}

// As librdmacm sends it, with room for the parameters of other events.
TEST_F(WritingEvents, ALongerCommandIsAccepted) {
  struct {
    WriteEvent event;
    char rest[280];
  } body{{id, 0, static_cast<std::uint32_t>(EventNumber::kUser), 0, {}}, {}};
  EXPECT_EQ(program.command(channel, kWriteEvent, body).error, 0);
  program.expect_event(channel, EventNumber::kUser);
  EXPECT_EQ(program.command(channel, kWriteEvent, std::uint64_t{0}).error, EINVAL);
}

TEST_F(WritingEvents, AreDroppedWithTheirId) {
  ASSERT_EQ(write(EventNumber::kUser).error, 0);
  EXPECT_EQ(program.destroy_id(channel, id).error, 0);
  EXPECT_FALSE(channel.readable());
  EXPECT_EQ(write(EventNumber::kUser).error, ENOENT);
}

}  // namespace
}  // namespace uroce::control::cm_user
