#include "apps/progress/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cstdlib>
#include <optional>

#include "base/unique_fd.h"

namespace uroce {
namespace {

Time virtual_now = 0;
Time virtual_clock() { return virtual_now; }

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    virtual_now = 1'000 * kNanosecondsPerSecond;
    ::setenv("TERM", "xterm", 1);
  }
  void on_terminal(std::uint16_t columns) {
    reading_ = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
    ASSERT_EQ(::grantpt(reading_.get()), 0);
    ASSERT_EQ(::unlockpt(reading_.get()), 0);
    writing_ = UniqueFd(::open(::ptsname(reading_.get()), O_RDWR | O_NOCTTY));
    ASSERT_TRUE(writing_.valid());
    termios settings{};
    ASSERT_EQ(::tcgetattr(writing_.get(), &settings), 0);
    ::cfmakeraw(&settings);
    ASSERT_EQ(::tcsetattr(writing_.get(), TCSANOW, &settings), 0);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(writing_.get(), TIOCSWINSZ, &size), 0);
  }
  void in_pipe() {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
    reading_ = UniqueFd(ends[0]);
    writing_ = UniqueFd(ends[1]);
  }
  void begin(std::uint64_t of) {
    progress.emplace("frames", writing_.get(), virtual_clock);
    progress->begin(of);
  }
  std::string said() {
    char text[1'024];
    const ssize_t length = ::read(reading_.get(), text, sizeof(text));
    return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
  }

  std::optional<Progress> progress;

 private:
  UniqueFd reading_, writing_;
};

TEST_F(ProgressTest, ABarOnATerminalErasedAtTheEnd) {
  on_terminal(60);
  begin(200);
  progress->at(50);
  EXPECT_EQ(said(), "\r[########--------------------------] 25 %, 50 of 200 frames\x1b[K");
  progress->at(60);
  EXPECT_EQ(said(), "") << "too soon to redraw";
  virtual_now += 4 * kNanosecondsPerSecond;
  progress->at(100);
  EXPECT_EQ(said(), "\r[###########------------] 50 %, 100 of 200 frames, 4 s left\x1b[K");
  progress.reset();
  EXPECT_EQ(said(), "\r\x1b[K");
}

TEST_F(ProgressTest, NoBarWithoutRoomForOne) {
  on_terminal(30);
  begin(200);
  progress->at(50);
  EXPECT_EQ(said(), "\r25 %, 50 of 200 frames\x1b[K");
}

TEST_F(ProgressTest, WithoutATotalThereIsACount) {
  on_terminal(60);
  begin(0);
  progress->at(50);
  EXPECT_EQ(said(), "\r50 frames\x1b[K");
}

TEST_F(ProgressTest, LinesElsewhereAndNoneForShortWork) {
  in_pipe();
  begin(200);
  progress->at(50);
  EXPECT_EQ(said(), "");
  virtual_now += Progress::kLineInterval;
  progress->at(100);
  progress->at(101);
  EXPECT_EQ(said(), "50 %, 100 of 200 frames, 10 s left\n");
  progress.reset();
  EXPECT_EQ(said(), "");
}

TEST_F(ProgressTest, LinesOnATerminalThatCannotBeDrawnOver) {
  ::setenv("TERM", "dumb", 1);
  on_terminal(60);
  begin(200);
  virtual_now += Progress::kLineInterval;
  progress->at(300);  // more than announced
  EXPECT_EQ(said(), "100 %, 200 of 200 frames, 0 s left\n");
}

}  // namespace
}  // namespace uroce
