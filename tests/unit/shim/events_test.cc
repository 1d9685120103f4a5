// Events of objects that are destroyed: the program isn't woken for them any more.

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/unit/shim/signal_until_done.h"
#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class Events : public VerbsFixture {
 protected:
  static bool readable(int descriptor) {
    pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) == 1;
  }
  void announce_of(std::uint64_t cookie) {
    daemon.announce(
        abi::AsyncEventRecord{.event = IBV_EVENT_QP_FATAL, .handle = 0, .cookie = cookie});
  }
  // The queue pair of the next event, which exists until the end of the test.
  ibv_qp* await_event() {
    ibv_async_event event{};
    if (ibv_get_async_event(context, &event) != 0) {
      return nullptr;
    }
    ibv_ack_async_event(&event);
    return event.element.qp;
  }
};

TEST_F(Events, OfADestroyedQueuePairWakeNobody) {
  ibv_qp* const first = qp;
  const std::uint64_t first_cookie = qp_cookie;
  make_qp();
  const std::uint64_t second_cookie = qp_cookie;
  std::vector<std::uint64_t> order{first_cookie, first_cookie,  second_cookie, first_cookie,
                                   first_cookie, second_cookie, first_cookie};
  for (const std::uint64_t cookie : order) {
    announce_of(cookie);
  }
  ASSERT_TRUE(readable(context->async_fd));
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(readable(context->async_fd));
    EXPECT_EQ(await_event(), qp);
  }
  EXPECT_FALSE(readable(context->async_fd)) << "no wake-up for a destroyed object";
  announce_of(second_cookie);
  EXPECT_TRUE(readable(context->async_fd));
  EXPECT_EQ(await_event(), qp);
}

TEST_F(Events, OfADestroyedCompletionQueueWakeNobody) {
  ibv_cq* const other = ibv_create_cq(context, 4, nullptr, channel, 0);
  ASSERT_NE(other, nullptr);
  const std::uint64_t other_cookie = daemon.last_cookie();
  for (const std::uint64_t cookie : {other_cookie, cq_cookie, other_cookie}) {
    daemon.announce(abi::CompletionEvent{.cq_cookie = cookie});
  }
  EXPECT_EQ(ibv_destroy_cq(other), 0);
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  EXPECT_TRUE(readable(channel->fd));
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &told_context), 0);
  EXPECT_EQ(told, cq);
  ibv_ack_cq_events(cq, 1);
  EXPECT_FALSE(readable(channel->fd));
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Events, OfAQueueCantGoToAnotherDevicesChannel) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* const other = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(ibv_create_cq(other, 4, nullptr, channel, 0), nullptr);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(channel->refcnt, 1);
  EXPECT_EQ(ibv_close_device(other), 0);
}

// Readers that wait, readers that don't, and a thread that destroys queues: each event of the
// remaining queue is returned once.
TEST_F(Events, AreReturnedOnceToManyThreads) {
  constexpr unsigned kEvents = 2'000;
  std::atomic<unsigned> taken{0};
  std::array<std::thread, 3> readers;
  for (std::thread& reader : readers) {
    reader = std::thread([&] {
      ibv_cq* told = nullptr;
      void* told_context = nullptr;
      while (ibv_get_cq_event(channel, &told, &told_context) == 0 && told == cq) {
        ibv_ack_cq_events(cq, 1);
        if (taken.fetch_add(1) + 1 >= kEvents) {
          return;
        }
      }
    });
  }
  for (unsigned i = 0; i < kEvents + readers.size() - 1; ++i) {
    if (i % 20 == 0) {
      ibv_cq* const passing = ibv_create_cq(context, 4, nullptr, channel, 0);
      ASSERT_NE(passing, nullptr);
      daemon.announce(abi::CompletionEvent{.cq_cookie = 0});  // of no queue
      EXPECT_EQ(ibv_destroy_cq(passing), 0);
    }
    daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(taken.load(), kEvents + readers.size() - 1);
}

// A thread that waits for a completion event under signals, and the result of that call.
class Interrupted : public Events {
 protected:
  // Sends signals until the call has returned or `patience` is over; then sends an event to end it.
  // Returns whether the call had returned before the event.
  bool wait_under_signals(int flags, std::chrono::milliseconds patience) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++handled; };
    action.sa_flags = flags;
    struct sigaction before {};
    EXPECT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    handled = 0;
    std::atomic<bool> done{false};
    std::thread waiter([&] {
      ibv_cq* told = nullptr;
      void* told_context = nullptr;
      outcome = ibv_get_cq_event(channel, &told, &told_context);
      error = errno;
      if (outcome == 0) {
        ibv_ack_cq_events(told, 1);
      }
      done.store(true);
    });
    const bool returned = signal_until_done(waiter, done, patience);
    daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});
    waiter.join();
    EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
    return returned;
  }

  static inline std::atomic<int> handled{0};
  int outcome = 0;
  int error = 0;
};

TEST_F(Interrupted, BySignalsReturnsToTheProgram) {
  EXPECT_TRUE(wait_under_signals(0, std::chrono::seconds{10}));
  EXPECT_EQ(outcome, -1);
  EXPECT_EQ(error, EINTR);
}

TEST_F(Interrupted, BySignalsThatRestartCallsGoesOn) {
  EXPECT_FALSE(wait_under_signals(SA_RESTART, std::chrono::milliseconds{100}));
  EXPECT_EQ(outcome, 0);
  EXPECT_GT(handled.load(), 0);
}

}  // namespace
}  // namespace uroce::test
