// Asynchronous events: who receives them, and which are dropped.

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "abi/device_records.h"
#include "abi/verbs_mask.h"
#include "control/server/server.h"
#include "control/sessions/events.h"
#include "tests/unit/control/sessions/listener.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

using enum abi::VerbsMask;

constexpr auto kQpFatal = static_cast<std::uint32_t>(AsyncEvent::kQpFatal);

// A port whose link a test can take down and up.
class CablePort final : public SilentPort {
 public:
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = SilentPort::info();
    info.link_up = up;
    return info;
  }
  std::atomic<bool> up{true};
};

TEST(Events, StayReadableWhenTheSessionEnds) {
  Rig rig;
  auto program = std::make_unique<Program>(rig);
  Answer opened = program->ask(abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
  const UniqueFd channel = std::move(opened.record.descriptors.front());
  const auto request = program->rc_qp(program->make_pd(), program->make_cq());
  const auto qp = program->ask(abi::Command::kCreateQp, request).as<abi::CreateQpReply>();
  program->session.announce(kQpFatal, qp.handle, request.cookie);
  program.reset();
  abi::AsyncEventRecord record{};
  EXPECT_EQ(::read(channel.get(), &record, sizeof(record)), ssize_t{sizeof(record)});
  EXPECT_EQ(record.cookie, request.cookie);
  EXPECT_EQ(::read(channel.get(), &record, sizeof(record)), 0);
}

TEST(Events, OfAFullChannelAreCountedAndDontStopTheDaemon) {
  Rig rig;
  Listener listener(rig);
  const auto qp = listener.make_qp(1);
  Session& session = listener.program.session;
  for (int i = 0; i < 10'000; ++i) {
    session.announce(kQpFatal, qp.handle, 1);
  }
  EXPECT_GT(session.events_lost(), 0U);
  EXPECT_EQ(listener.program.ask_about(abi::Command::kDestroyQp, qp.handle).header.error, 0);
}

// A program with many queue pairs, whose events it doesn't read.
class ManyEvents : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kQps = 3'000;

  ManyEvents() {
    for (std::uint32_t i = 0; i < kQps; ++i) {
      handles.push_back(listener.make_qp(i).handle);
      session.announce(kLastWqe, handles.back(), i);
    }
  }
  static constexpr auto kLastWqe = static_cast<std::uint32_t>(AsyncEvent::kQpLastWqeReached);

  // As the server does when the program has read some.
  bool go_on() {
    std::array<std::uint64_t, 2> ready{};
    const std::size_t count = rig.card.event_socket_watch().ready(ready);
    if (count == 1 && ready.front() == session.id()) {
      session.events().send_waiting();
    }
    return count == 1;
  }

  Rig rig;
  Listener listener{rig};
  Session& session = listener.program.session;
  std::vector<std::uint32_t> handles;
};

TEST_F(ManyEvents, WaitUntilTheProgramReadsThem) {
  EXPECT_GT(session.events().waiting(), 0U);
  EXPECT_FALSE(go_on()) << "the socket is full";
  for (std::uint32_t i = 0; i < kQps; ++i) {
    abi::AsyncEventRecord event = listener.next();
    if (event.event == Listener::kNone && go_on()) {
      event = listener.next();
    }
    ASSERT_EQ(event.event, kLastWqe) << i;
    ASSERT_EQ(event.cookie, i);
  }
  EXPECT_EQ(listener.next().event, Listener::kNone);
  EXPECT_EQ(session.events_lost(), 0U);
  EXPECT_FALSE(go_on()) << "nothing is waiting for room";
  session.announce(kLastWqe, handles.front(), 0);
  EXPECT_EQ(listener.next().event, kLastWqe) << "sent at once";
}

TEST_F(ManyEvents, AreDroppedWithTheirObjects) {
  const std::size_t waiting = session.events().waiting();
  const auto first = static_cast<std::uint32_t>(kQps - waiting);  // earlier ones are in the socket
  for (std::uint32_t i = first; i < kQps; i += 2) {
    ASSERT_EQ(listener.program.ask_about(abi::Command::kDestroyQp, handles[i]).header.error, 0);
  }
  EXPECT_EQ(session.events().waiting(), waiting / 2);
  for (std::uint32_t i = 0; i < kQps; ++i) {
    if (i >= first && (i - first) % 2 == 0) {
      continue;
    }
    abi::AsyncEventRecord event = listener.next();
    if (event.event == Listener::kNone && go_on()) {
      event = listener.next();
    }
    ASSERT_EQ(event.cookie, i);
  }
  EXPECT_EQ(listener.next().event, Listener::kNone);
}

TEST_F(ManyEvents, OfAProgramThatReadsNoneAreBounded) {
  for (std::uint32_t i = 0; i < 4 * kQps + 10'000; ++i) {
    session.announce(kQpFatal, handles[i % kQps], i % kQps);
  }
  EXPECT_GT(session.events_lost(), 0U);
  EXPECT_EQ(session.events().waiting(),
            ProgramEvents::kOfObjectMax * (kQps + 1) + ProgramEvents::kOthersMax);
}

TEST_F(ManyEvents, OfAProgramThatClosesItsSocketAreDropped) {
  listener.close();
  EXPECT_TRUE(go_on());
  EXPECT_EQ(session.events().waiting(), 0U);
  EXPECT_FALSE(go_on());
}

TEST_F(ManyEvents, AreSentByTheServer) {
  const test::TemporaryFolder folder;
  auto server = Server::listen(rig.services, folder / "s", 0600);
  ASSERT_TRUE(server);
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  std::thread thread([&] { (*server)->run(stop.get()); });
  std::uint32_t read = 0;
  while (read < kQps && listener.await().cookie == read) {
    ++read;
  }
  EXPECT_EQ(read, kQps);
  const std::uint64_t done = 1;
  EXPECT_EQ(::write(stop.get(), &done, sizeof(done)), 8);
  thread.join();
  server->reset();
}

TEST(Events, ALimitAlreadyReachedIsReportedAtOnce) {
  Rig rig;
  Listener listener(rig);
  abi::CreateSrqRequest request{};
  request.max_wr = 8;
  request.cookie = 5;
  const auto srq =
      listener.program.ask(abi::Command::kCreateSrq, request).as<abi::CreateSrqReply>();
  abi::ModifySrqRequest modify{};
  modify.handle = srq.handle;
  modify.mask = 2;
  modify.limit = 3;
  EXPECT_EQ(listener.program.ask(abi::Command::kModifySrq, modify).header.error, 0);
  const abi::AsyncEventRecord event = listener.next();
  EXPECT_EQ(event.event, static_cast<std::uint32_t>(AsyncEvent::kSrqLimitReached));
  EXPECT_EQ(event.cookie, 5U);
  EXPECT_EQ(listener.next().event, 99U);
  constexpr std::uint32_t kSize =
      1;  // IBV_SRQ_MAX_WR: the device doesn't report IBV_DEVICE_SRQ_RESIZE
  modify.mask = kSize;
  EXPECT_EQ(listener.program.ask(abi::Command::kModifySrq, modify).header.error, EOPNOTSUPP);
}

TEST(Events, OfAnOverrunGoToTheQueueAndItsQueuePairs) {
  Rig rig;
  Listener listener(rig);
  const auto used = listener.make_qp(1);
  const auto idle = listener.make_qp(2);
  const std::uint32_t other_cq = listener.program.make_cq();
  const auto elsewhere =
      listener.program.ask(abi::Command::kCreateQp, listener.program.rc_qp(listener.pd, other_cq))
          .as<abi::CreateQpReply>();
  Session& session = listener.program.session;
  for (const std::uint32_t handle : {used.handle, elsewhere.handle}) {
    abi::ModifyQpRequest modify{};
    modify.handle = handle;
    modify.mask = kVerbsState | kVerbsPkeyIndex | kVerbsPort | kVerbsAccessFlags;
    modify.attributes.state = static_cast<std::uint32_t>(QpState::kInit);
    modify.attributes.port = 1;
    ASSERT_EQ(listener.program.ask(abi::Command::kModifyQp, modify).header.error, 0);
  }
  announce_overrun(session, listener.cq);
  const abi::AsyncEventRecord of_queue = listener.next();
  EXPECT_EQ(of_queue.event, static_cast<std::uint32_t>(AsyncEvent::kCqErr));
  EXPECT_EQ(of_queue.cookie, 77U);
  const abi::AsyncEventRecord of_pair = listener.next();
  EXPECT_EQ(of_pair.event, kQpFatal);
  EXPECT_EQ(of_pair.cookie, 1U);
  EXPECT_EQ(listener.next().event, 99U);
  EXPECT_EQ(session.qps.find(used.handle)->qp->state(), QpState::kErr);
  EXPECT_EQ(session.qps.find(idle.handle)->qp->state(), QpState::kReset);
  EXPECT_EQ(session.qps.find(elsewhere.handle)->qp->state(), QpState::kInit);
}

// The session whose user the time is charged to.
TEST(Events, OfAnOverrunAreForTheOwnerOfTheQueue) {
  Rig rig;
  Listener listener(rig);
  Session& session = listener.program.session;
  const std::uint32_t number = session.cqs.find(listener.cq)->id.number();
  EXPECT_EQ(announce(rig.card, AsyncEvent::kCqErr, number), &session) << "nobody uses it";
  EXPECT_EQ(listener.next().event, static_cast<std::uint32_t>(AsyncEvent::kCqErr));
  EXPECT_EQ(listener.next().event, Listener::kNone);
  EXPECT_EQ(listener.program.ask_about(abi::Command::kDestroyCq, listener.cq).header.error, 0);
  EXPECT_EQ(announce(rig.card, AsyncEvent::kCqErr, number), nullptr);
  EXPECT_EQ(announce(rig.card, AsyncEvent::kSrqErr, number), nullptr);
  EXPECT_EQ(announce(rig.card, AsyncEvent::kQpFatal, number), nullptr);
}

TEST(Events, OfALinkGoToAllWithTheDeviceOpen) {
  auto owned = std::make_unique<CablePort>();
  CablePort& port = *owned;
  Rig rig(std::move(owned), 1);
  std::atomic<Time> now{1};
  rig.card.set_clock([&now] { return now += kNanosecondsPerSecond; });  // each look at a new second
  Listener one(rig);
  Listener other(rig);
  const test::TemporaryFolder folder;
  auto server = Server::listen(rig.services, folder / "s", 0600);
  ASSERT_TRUE(server);
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  std::thread thread([&] { (*server)->run(stop.get()); });
  port.up = false;
  for (Listener* listener : {&one, &other}) {
    const abi::AsyncEventRecord event = listener->await();
    EXPECT_EQ(event.event, static_cast<std::uint32_t>(AsyncEvent::kPortErr));
    EXPECT_EQ(event.handle, 1U);
  }
  port.up = true;
  EXPECT_EQ(one.await().event, static_cast<std::uint32_t>(AsyncEvent::kPortActive));
  const std::uint64_t done = 1;
  EXPECT_EQ(::write(stop.get(), &done, sizeof(done)), 8);
  thread.join();
  server->reset();
}

TEST(QueueMemory, IsLimitedPerUser) {
  Rig rig;
  Listener listener(rig);
  abi::CreateQpRequest greedy = listener.program.rc_qp(listener.pd, listener.cq);
  greedy.max_send_wr = greedy.max_recv_wr = kWorkRequestsMax;
  greedy.max_send_sge = greedy.max_recv_sge = kSgeMax;
  constexpr std::size_t kMore = 1000;  // than a user can have of either
  std::vector<std::uint32_t> made;
  Answer answer = listener.program.ask(abi::Command::kCreateQp, greedy);
  while (answer.header.error == 0 && made.size() < kMore) {
    made.push_back(answer.as<abi::CreateQpReply>().handle);
    answer = listener.program.ask(abi::Command::kCreateQp, greedy);
  }
  ASSERT_EQ(answer.header.error, ENOMEM);
  ASSERT_FALSE(made.empty());
  EXPECT_NE(answer.message().find("bytes of queues"), std::string::npos) << answer.message();
  abi::CreateCqRequest cq{};
  cq.entries = kCqesMax;
  for (std::size_t i = 0; i < kMore; ++i) {
    if (listener.program.ask(abi::Command::kCreateCq, cq).header.error != 0) {
      break;
    }
  }
  EXPECT_EQ(listener.program.ask(abi::Command::kCreateCq, cq).header.error, ENOMEM);
  // In another session of the same user, too; freed memory can be allocated again.
  Program other(rig);
  other.open();
  EXPECT_EQ(other.ask(abi::Command::kCreateCq, cq).header.error, ENOMEM);
  const std::uint32_t handle = made.front();
  EXPECT_EQ(listener.program.ask_about(abi::Command::kDestroyQp, handle).header.error, 0);
  EXPECT_EQ(listener.program.ask(abi::Command::kCreateQp, greedy).header.error, 0);
}

}  // namespace
}  // namespace uroce::control
