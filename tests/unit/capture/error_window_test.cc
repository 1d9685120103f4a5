#include "apps/capture/error_window.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace uroce::capture {
namespace {

constexpr std::uint32_t kQpn = 17;

// What was released: each packet's number, and a + for each failure attached to it.
class Around {
 public:
  explicit Around(std::size_t packets) : around(packets) {}
  void packets(int count, std::uint32_t qpn = kQpn) {
    for (int i = 0; i < count; ++i) {
      Record record;
      record.head.kind = abi::CaptureKind::kSent;
      record.head.qpn = qpn;
      record.head.time = ++last_;
      around.add(std::move(record), take);
    }
  }
  std::string end() {
    around.release(0, true, take);
    return std::exchange(out, {});
  }

  ErrorWindow around;
  std::string out;
  ErrorWindow::Take take = [this](const Record& record, const std::vector<std::string>& failures) {
    out += (out.empty() ? "" : " ") + std::to_string(record.head.time) +
           std::string(failures.size(), '+');
  };

 private:
  Time last_ = 0;
};

TEST(ErrorWindow, NothingWithoutAnError) {
  Around it(3);
  it.packets(10);
  EXPECT_FALSE(it.around.is_complete());
  EXPECT_EQ(it.end(), "");
}

TEST(ErrorWindow, KeepsPacketsBeforeAndAfter) {
  Around it(3);
  it.packets(10);
  it.around.fail(kQpn, "why", 0);
  EXPECT_FALSE(it.around.is_complete());
  it.packets(10);
  EXPECT_TRUE(it.around.is_complete());
  EXPECT_EQ(it.end(), "8 9 10+ 11 12 13");
}

TEST(ErrorWindow, FailuresCloseTogetherShareTheirPackets) {
  Around it(3);
  it.packets(10);
  it.around.fail(kQpn, "why", 0);
  it.packets(2);
  it.around.fail(kQpn, "and why", 0);
  it.packets(10);
  EXPECT_EQ(it.end(), "8 9 10+ 11 12+ 13 14 15");
  EXPECT_EQ(it.around.failures(), 2U);
}

TEST(ErrorWindow, TheSentenceIsAttachedToAPacketOfTheQueuePair) {
  Around it(3);
  it.packets(2);
  it.packets(1, 99);
  EXPECT_TRUE(it.around.knows(kQpn));
  EXPECT_FALSE(it.around.knows(18));
  it.around.fail(kQpn, "why", 0);
  it.around.fail(18, "without a packet of its own", 0);
  EXPECT_EQ(it.end(), "1 2+ 3+");
}

TEST(ErrorWindow, AFailureBeforeAnyPacketIsAttachedToTheNext) {
  Around it(2);
  it.around.fail(kQpn, "why", 0);
  it.packets(5);
  EXPECT_EQ(it.end(), "1+ 2");
}

// A failed queue pair is silent: the window doesn't wait for packets that may never come.
TEST(ErrorWindow, WaitsNoLongerThanItsTimeout) {
  Around it(3);
  it.packets(2);
  it.around.fail(kQpn, "why", 1'000);
  it.packets(1);
  it.around.release(1'000 + ErrorWindow::kTimeout - 1, false, it.take);
  EXPECT_EQ(it.out, "");
  it.around.release(1'000 + ErrorWindow::kTimeout, false, it.take);
  EXPECT_EQ(it.out, "1 2+ 3");
  EXPECT_TRUE(it.around.is_complete());
  it.packets(3);
  it.around.fail(kQpn, "again", 2'000);  // released packets aren't released again
  EXPECT_EQ(it.end(), "1 2+ 3 4 5 6+");
}

}  // namespace
}  // namespace uroce::capture
