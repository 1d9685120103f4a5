#include "base/event_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace uroce::test {
namespace {

struct Event {
  std::uint64_t cookie;
};

TEST(EventPipe, EventsComeOutAsTheyWentIn) {
  auto pipe = make_event_pipe("a pipe");
  ASSERT_TRUE(pipe);
  EXPECT_EQ(put_event(pipe->write_end.get(), Event{7}), PutEvent::kPut);
  EXPECT_EQ(put_event(pipe->write_end.get(), Event{8}), PutEvent::kPut);
  Event event{};
  ASSERT_EQ(::read(pipe->read_end.get(), &event, sizeof(event)), sizeof(event));
  EXPECT_EQ(event.cookie, 7U);
  EXPECT_EQ(::fcntl(pipe->read_end.get(), F_GETFL) & O_NONBLOCK, 0) << "the program's choice";
}

TEST(EventPipe, AFullOneSaysSo) {
  auto pipe = make_event_pipe("a pipe");
  ASSERT_TRUE(pipe);
  while (put_event(pipe->write_end.get(), Event{7}) == PutEvent::kPut) {
  }
  EXPECT_EQ(put_event(pipe->write_end.get(), Event{7}), PutEvent::kFull);
}

TEST(EventPipe, AClosedOneSaysSo) {
  std::signal(SIGPIPE, SIG_IGN);
  auto pipe = make_event_pipe("a pipe");
  ASSERT_TRUE(pipe);
  pipe->read_end.reset();
  EXPECT_EQ(put_event(pipe->write_end.get(), Event{7}), PutEvent::kClosed);
}

}  // namespace
}  // namespace uroce::test
