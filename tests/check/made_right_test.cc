// Captures in which something went wrong on the way, and both ends reacted correctly.

#include <gtest/gtest.h>

#include <functional>

#include "tests/check/story.h"

namespace uroce::test {
namespace {

// A sequence that looks odd but is correct.
struct Right {
  const char* what;
  std::function<void(Story&)> tell;
};

const Right kRight[] = {
    {"go back after a NAK",
     [](Story& story) {
       story.write_long(0, 6);
       story.nak(2);
       for (std::uint32_t psn = 2; psn < 6; ++psn) {
         story.ask(psn == 5 ? Opcode::kRcWriteLast : kMiddle, psn, kMtu);
       }
       story.ack(5);
       story.go_on(6);
     }},
    {"only what was lost, and a second gap",
     [](Story& story) {
       story.write_long(0, 8);
       story.nak(2);
       story.ask(kMiddle, 2, kMtu);
       story.nak(5);
       story.ask(kMiddle, 5, kMtu);
       story.ack(7);
       story.go_on(8);
     }},
    {"what was sent again is lost, too, and the timer helps",
     [](Story& story) {
       story.write_long(0, 4);
       story.nak(1);
       story.ask(kMiddle, 1, kMtu);
       story.wait(kLong);
       story.ask(kMiddle, 1, kMtu);
       story.ack(3);
     }},
    {"back to the first of two READs, and what came of the second was dropped",
     [](Story& story) {
       story.read(0, 2 * kMtu);
       story.read(2, 4 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 2);
       story.response(Opcode::kRcReadResponseMiddle, 3);
       story.response(Opcode::kRcReadResponseLast, 5);
       story.read(0, 2 * kMtu);
       story.read(2, 4 * kMtu);
       story.responses(0, 2);
       story.responses(2, 4);
     }},
    {"one packet overtakes another",
     [](Story& story) {
       story.write(0);
       story.write(2);
       story.write(1);
       story.ack(2);
       story.go_on(3);
     }},
    {"a network's duplicate",
     [](Story& story) {
       story.write_long(0, 4);
       story.frames().push_back(story.frames()[2]);
       story.ack(3);
     }},
    {"an acknowledgement is lost",
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.wait(kLong);
       story.write(0);
       story.ack(0);
     }},
    {"nobody answers",
     [](Story& story) {
       for (int i = 0; i < 4; ++i) {
         story.write_long(0, 3);
         story.wait(kLong);
       }
     }},
    {"an answer crosses the question for it",
     [](Story& story) {
       story.read(0, 4 * kMtu);
       story.response(Opcode::kRcReadResponseFirst, 0);
       story.response(Opcode::kRcReadResponseLast, 3);
       story.read(1, 2 * kMtu, kAddress + kMtu);
       story.response(Opcode::kRcReadResponseFirst, 1);
       story.read(1, 2 * kMtu, kAddress + kMtu);
       story.response(Opcode::kRcReadResponseLast, 2);
       story.responses(1, 2);
     }},
    {"the rest of a READ is asked for",
     [](Story& story) {
       story.read(0, 4 * kMtu - 5);
       story.response(Opcode::kRcReadResponseFirst, 0);
       story.response(Opcode::kRcReadResponseMiddle, 2);
       story.read(1, 3 * kMtu - 5, kAddress + kMtu);
       story.response(Opcode::kRcReadResponseFirst, 1);
       story.response(Opcode::kRcReadResponseMiddle, 2);
       story.response(Opcode::kRcReadResponseLast, 3, kMtu - 5);
       story.go_on(4);
     }},
    {"what a NAK named comes after all, and READs behind it are answered",
     [](Story& story) {
       story.write(0);
       story.read(1, 2 * kMtu);
       story.read(3, 2 * kMtu);
       story.responses(1, 2);
       story.nak(3);
       story.responses(3, 2);
       story.wait(kLong);
       story.read(5, 2 * kMtu);
     }},
    {"a READ's request was lost, and its rest is asked for before it",
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.read(5, 2 * kMtu);
       story.nak(1);
       story.read(2, 3 * kMtu, kAddress + kMtu);
       story.read(1, 4 * kMtu);
       story.responses(1, 4);
       story.responses(5, 2);
       story.go_on(7);
     }},
    {"another connection with the same numbers",
     [](Story& story) {
       story.write(0);
       story.ack(0);
       story.write(0x50'0000);
       story.ack(0x50'0000);
     }},
};

TEST(MadeRight, NothingIsFound) {
  for (const Right& right : kRight) {
    SCOPED_TRACE(right.what);
    Story story;
    right.tell(story);
    check::Verdict verdict;
    story.analyse(verdict);
    EXPECT_EQ(found(verdict), "");
  }
}

}  // namespace
}  // namespace uroce::test
