#include "base/sockets/event_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <thread>

#include "tests/unit/base/slow_page.h"

namespace uroce::test {
namespace {

struct Event {
  std::uint64_t cookie;
};

TEST(EventSocket, EventsComeOutAsTheyWentIn) {
  auto socket = make_event_socket("a channel");
  ASSERT_TRUE(socket);
  EXPECT_EQ(put_event(socket->write_end.get(), Event{7}), PutEvent::kPut);
  EXPECT_EQ(put_event(socket->write_end.get(), Event{8}), PutEvent::kPut);
  Event event{};
  ASSERT_EQ(::read(socket->read_end.get(), &event, sizeof(event)), sizeof(event));
  EXPECT_EQ(event.cookie, 7U);
  EXPECT_EQ(::fcntl(socket->read_end.get(), F_GETFL) & O_NONBLOCK, 0) << "the program's choice";
}

TEST(EventSocket, AFullOneSaysSo) {
  auto socket = make_event_socket("a channel");
  ASSERT_TRUE(socket);
  while (put_event(socket->write_end.get(), Event{7}) == PutEvent::kPut) {
  }
  EXPECT_EQ(put_event(socket->write_end.get(), Event{7}), PutEvent::kFull);
}

TEST(EventSocket, AClosedOneSaysSo) {
  auto socket = make_event_socket("a channel");
  ASSERT_TRUE(socket);
  socket->read_end.reset();
  EXPECT_EQ(put_event(socket->write_end.get(), Event{7}), PutEvent::kClosed);
}

TEST(EventSocket, TakesNothingFromTheProgram) {
  auto socket = make_event_socket("a channel");
  ASSERT_TRUE(socket);
  EXPECT_EQ(::send(socket->read_end.get(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  pollfd entry{.fd = socket->read_end.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "and is no end to be read";
}

TEST(EventSocket, EndsWithTheDaemon) {
  auto socket = make_event_socket("a channel");
  ASSERT_TRUE(socket);
  EXPECT_EQ(put_event(socket->write_end.get(), Event{7}), PutEvent::kPut);
  socket->write_end.reset();
  Event event{};
  EXPECT_EQ(::read(socket->read_end.get(), &event, sizeof(event)), sizeof(event));
  EXPECT_EQ(::read(socket->read_end.get(), &event, sizeof(event)), 0);
}

// A pipe's writer would wait here for the reader, which holds the pipe's mutex.
TEST(EventSocket, AProgramThatReadsIntoASlowPageHoldsUpNobody) {
  SlowPage page;
  if (!page.works()) {
    GTEST_SKIP() << "only root may have the kernel wait for a userfaultfd";
  }
  auto socket = make_event_socket("a channel");
  ASSERT_TRUE(socket);
  ASSERT_EQ(put_event(socket->write_end.get(), Event{7}), PutEvent::kPut);
  std::thread reader([&] { (void)!::read(socket->read_end.get(), page.get(), sizeof(Event)); });
  page.await_fault();
  auto daemon = std::async(std::launch::async, [&] {
    const PutEvent put = put_event(socket->write_end.get(), Event{8});
    socket->write_end.reset();
    return put;
  });
  const bool waits = daemon.wait_for(std::chrono::seconds(2)) == std::future_status::timeout;
  page.come_in();
  EXPECT_FALSE(waits);
  EXPECT_EQ(daemon.get(), PutEvent::kPut);
  reader.join();
}

}  // namespace
}  // namespace uroce::test
