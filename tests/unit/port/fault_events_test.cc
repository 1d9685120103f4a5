#include "dataplane/port/faults/fault_events.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce {
namespace {

Packet packet(std::uint32_t qpn, std::uint32_t psn, Opcode opcode = Opcode::kRcWriteMiddle) {
  Packet made;
  made.opcode = opcode;
  made.dest_qpn = qpn;
  made.psn = psn;
  return made;
}

FaultEvents events(std::string_view text) { return FaultEvents({parse_fault_event(text).value()}); }

TEST(FaultEvents, ParsesAllParts) {
  const auto event = parse_fault_event("qp:3/response/psn:4/iter:2:corrupt");
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(
      *event,
      (FaultEvent{
          .qp = 3, .response = true, .psn = 4, .iteration = 2, .action = FaultAction::kCorrupt}));
  EXPECT_EQ(parse_fault_event(to_string(*event)).value(), *event);
}

TEST(FaultEvents, OmittedPartsMeanTheFirst) {
  EXPECT_EQ(parse_fault_event("qpn:0x11:drop").value(), (FaultEvent{.by_number = true, .qp = 17}));
}

TEST(FaultEvents, AnErrorNamesThePart) {
  struct Case {
    const char* text;
    const char* named;
  };
  for (const Case& wrong :
       {Case{"", "must end in"}, Case{"qp:0", "must end in"},
        Case{"qp:0/psn:1:lose", "must end in"}, Case{"psn:4:drop", "names no queue pair"},
        Case{"qp:x:drop", "'qp:x' must be from 0 to 1023"}, Case{"qp:1024:drop", "from 0 to 1023"},
        Case{"qpn:16777216:drop", "'qpn:16777216'"}, Case{"qp:0/psn:-1:drop", "'psn:-1'"},
        Case{"qp:0/iter:0:drop", "'iter:0' must be from 1"},
        Case{"qp:0/when:3:drop", "'when:3' isn't"}, Case{"qp:0/qpn:3:drop", "second of its kind"},
        Case{"qp:0/psn:1/psn:2:drop", "second of its kind"}}) {
    const auto event = parse_fault_event(wrong.text);
    ASSERT_FALSE(event) << wrong.text;
    EXPECT_EQ(event.error().code, EINVAL);
    EXPECT_NE(event.error().message.find(wrong.named), std::string::npos) << event.error().message;
  }
}

TEST(FaultEvents, PsnsCountFromTheFirstOneSeen) {
  auto all = events("qp:0/psn:2:drop");
  EXPECT_FALSE(all.pass(packet(17, 0xFF'FFFF)));
  EXPECT_FALSE(all.pass(packet(17, 0)));
  EXPECT_EQ(all.pass(packet(17, 1)), FaultAction::kDrop) << "across the wrap";
}

TEST(FaultEvents, HappensInOneIterationOnly) {
  auto all = events("qp:0/psn:1/iter:2:dup");
  EXPECT_FALSE(all.pass(packet(17, 100)));
  EXPECT_FALSE(all.pass(packet(17, 101)));
  EXPECT_EQ(all.pass(packet(17, 101)), FaultAction::kDuplicate);
  EXPECT_FALSE(all.pass(packet(17, 101)));
}

TEST(FaultEvents, QueuePairsAreNumberedInOrderOfAppearance) {
  auto all = events("qp:1:late");
  EXPECT_FALSE(all.pass(packet(18, 5)));
  EXPECT_EQ(all.pass(packet(17, 9)), FaultAction::kLate);
}

TEST(FaultEvents, QueuePairsCanBeNamedByQpn) {
  auto all = events("qpn:17:ce");
  EXPECT_FALSE(all.pass(packet(18, 5)));
  EXPECT_EQ(all.pass(packet(17, 5)), FaultAction::kCongested);
}

TEST(FaultEvents, RequestsAndResponsesAreCountedSeparately) {
  auto all = events("qp:0/response/psn:1:drop");
  EXPECT_FALSE(all.pass(packet(17, 5)));
  EXPECT_FALSE(all.pass(packet(17, 6)));
  EXPECT_FALSE(all.pass(packet(18, 5, Opcode::kRcReadResponseFirst)));
  EXPECT_EQ(all.pass(packet(18, 6, Opcode::kRcReadResponseLast)), FaultAction::kDrop);
}

TEST(FaultEvents, DatagramsAndNotificationsAreNotCounted) {
  auto all = events("qp:0:drop");
  EXPECT_FALSE(all.pass(packet(1, 0, Opcode::kUdSendOnly)));
  EXPECT_FALSE(all.pass(packet(17, 0, Opcode::kCnp)));
  EXPECT_EQ(all.pass(packet(17, 5)), FaultAction::kDrop);
}

}  // namespace
}  // namespace uroce
