// The server with real sockets: programs that behave, and programs that don't.

#include "control/server/server.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/unit/control/server/server_fixture.h"

namespace uroce::control {
namespace {

TEST_F(ServerTest, ServesSeveralPrograms) {
  const UniqueFd a = connect();
  const UniqueFd b = connect();
  EXPECT_EQ(ask(a, abi::Command::kOpenDevice, abi::OpenDeviceRequest{}).header.error, 0);
  EXPECT_EQ(ask(b, abi::Command::kOpenDevice, abi::OpenDeviceRequest{}).header.error, 0);
  EXPECT_EQ(ask(a, abi::Command::kAllocPd).header.error, 0);
  EXPECT_EQ(ask(b, abi::Command::kListDevices).as<abi::ListDevicesReply>().count, 1U);
}

TEST_F(ServerTest, TheSocketHasTheRequestedMode) {
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(ServerTest, ASecondDaemonIsRefusedAndAStaleSocketReplaced) {
  const auto second = ListeningSocket::open(path, 0600);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  const std::string stale = folder_ / "stale";
  leave_socket(stale, SOCK_SEQPACKET);
  EXPECT_TRUE(ListeningSocket::open(stale, 0600)) << "left by a dead daemon";
  EXPECT_EQ(::access(stale.c_str(), F_OK), -1) << "removed at the end";
}

// Both found a dead daemon's socket; one has replaced it, and the other must not remove the new
// one.
TEST_F(ServerTest, OfTwoStartingDaemonsOneGetsTheSocket) {
  ::unlink(path.c_str());  // so that only the lock shows it
  const auto second = ListeningSocket::open(path, 0600);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  const std::string other = folder_ / "two";
  { EXPECT_TRUE(ListeningSocket::open(other, 0600)); }
  EXPECT_EQ(::access((other + ".lock").c_str(), F_OK), -1);
  EXPECT_TRUE(ListeningSocket::open(other, 0600)) << "the lock was released with its daemon";
}

TEST_F(ServerTest, AnUnusableFolderIsReported) {
  const std::string unusable = "/proc/uroce/x.sock";  // not even root makes files there
  const auto refused = ListeningSocket::open(unusable, 0600);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOENT);
  EXPECT_EQ(refused.error().message, "can't make the lock of the socket " + unusable +
                                         ": No such file or directory; choose --socket in a "
                                         "folder of yours");
}

TEST_F(ServerTest, TheSocketOfAnotherServiceIsLeftAlone) {
  const std::string other = folder_ / "other";
  const UniqueFd stream = leave_socket(other, SOCK_STREAM);
  ASSERT_EQ(::listen(stream.get(), 1), 0);
  EXPECT_FALSE(ListeningSocket::open(other, 0600));
  EXPECT_EQ(::access(other.c_str(), F_OK), 0);
  ::unlink(other.c_str());
}

TEST_F(ServerTest, DescriptorsArriveOpenAndCloseOnExec) {
  const UniqueFd connection = connect();
  const Answer answer = ask(connection, abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
  ASSERT_EQ(answer.record.descriptors.size(), answer.header.descriptor_count);
  for (const UniqueFd& descriptor : answer.record.descriptors) {
    EXPECT_GE(descriptor.get(), 0);
  }
}

TEST_F(ServerTest, WithoutFreeDescriptorsOnlyRequestsThatBringSomeAreRefused) {
  const UniqueFd connection = connect();
  ASSERT_EQ(ask(connection, abi::Command::kOpenDevice, abi::OpenDeviceRequest{}).header.error, 0);
  Record record = make_record(abi::Command::kOpenXrcd, abi::RequestHeader{});
  record.descriptors.push_back(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  const int next = ::dup(stop.get());
  ::close(next);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  // Also takes descriptors that other threads free meanwhile.
  std::vector<UniqueFd> taken;
  Answer answer;
  for (int tries = 0; tries < 100 && answer.header.error != EMFILE; ++tries) {
    for (UniqueFd one(::dup(stop.get())); one.valid(); one.reset(::dup(stop.get()))) {
      taken.push_back(std::move(one));
    }
    EXPECT_EQ(send_record(connection.get(), record), Sending::kSent);
    answer = receive(connection);
  }
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(answer.header.error, EMFILE) << answer.message();
  EXPECT_NE(answer.message().find("no descriptors left"), std::string::npos) << answer.message();
  EXPECT_EQ(ask(connection, abi::Command::kAllocPd).header.error, 0) << "the session still works";
}

TEST_F(ServerTest, ADeadProgramsObjectsVanish) {
  {
    const UniqueFd connection = connect();
    ask(connection, abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
    ask(connection, abi::Command::kAllocPd);
    abi::CreateCqRequest request{};
    request.entries = 4;
    EXPECT_EQ(ask(connection, abi::Command::kCreateCq, request).header.error, 0);
  }
  // Sessions end in the order of events; a later session sees an empty report.
  const UniqueFd other = connect();
  const auto waited_until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::string text = "\"pds\":1";
  while (text.find("\"pds\":1") != std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), waited_until) << text;
    const Answer answer = ask(other, abi::Command::kStatus);
    ASSERT_GE(answer.record.bytes.size(), sizeof(abi::ReplyHeader)) << "no answer came";
    text.assign(
        reinterpret_cast<const char*>(answer.record.bytes.data()) + sizeof(abi::ReplyHeader),
        answer.record.bytes.size() - sizeof(abi::ReplyHeader));
  }
  EXPECT_NE(text.find("\"sessions\""), std::string::npos);
}

TEST_F(ServerTest, QueuePairsComeAndGoWhileWorkersRun) {
  const UniqueFd connection = connect();
  ask(connection, abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
  ask(connection, abi::Command::kAllocPd);
  abi::CreateCqRequest cq{};
  cq.entries = 4;
  ask(connection, abi::Command::kCreateCq, cq);
  abi::CreateQpRequest qp{};
  qp.type = static_cast<std::uint32_t>(QpType::kRc);
  qp.max_send_wr = qp.max_recv_wr = 4;
  for (int i = 0; i < 50; ++i) {
    const auto made = ask(connection, abi::Command::kCreateQp, qp).as<abi::CreateQpReply>();
    EXPECT_EQ(made.header.error, 0) << made.header.message;
    const abi::HandleRequest handle{{}, made.handle, 0};
    EXPECT_EQ(ask(connection, abi::Command::kQueryQp, handle).header.error, 0);
    if (i % 2 == 0) {
      EXPECT_EQ(ask(connection, abi::Command::kDestroyQp, handle).header.error, 0);
    }
  }
  EXPECT_EQ(ask(connection, abi::Command::kStatus).header.error, 0);
}

TEST_F(ServerTest, LongAndEmptyRecordsHarmOnlyTheirSender) {
  const UniqueFd good = connect();
  {
    const UniqueFd bad = connect();
    const std::vector<char> bytes(kRecordMax + 1);
    EXPECT_GT(::send(bad.get(), bytes.data(), bytes.size(), 0), 0);
    EXPECT_EQ(receive(bad).header.error, EMSGSIZE);
    EXPECT_EQ(receive(bad).header.error, -1) << "closed";
  }
  {
    const UniqueFd bad = connect();
    EXPECT_GT(::send(bad.get(), "x", 1, 0), 0);
    EXPECT_EQ(receive(bad).header.error, EBADMSG);
  }
  EXPECT_EQ(ask(good, abi::Command::kListDevices).header.error, 0);
}

TEST_F(ServerTest, ManyDescriptorsAreRefusedAndClosed) {
  const UniqueFd bad = connect();
  ASSERT_EQ(ask(bad, abi::Command::kListDevices).header.error, 0)
      << "before an answer it may pass none";
  Record record = make_record(abi::Command::kListDevices, abi::RequestHeader{});
  constexpr std::size_t kCount = 100;  // more than a record may have, fewer than the kernel's 253
  alignas(cmsghdr) char ancillary[CMSG_SPACE(kCount * sizeof(int))] = {};
  iovec part{record.bytes.data(), record.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof(ancillary);
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(kCount * sizeof(int));
  const UniqueFd pipe_like(::eventfd(0, EFD_CLOEXEC));
  for (std::size_t i = 0; i < kCount; ++i) {
    const int number = pipe_like.get();
    std::memcpy(CMSG_DATA(head) + i * sizeof(int), &number, sizeof(int));
  }
  ASSERT_GT(::sendmsg(bad.get(), &message, 0), 0);
  EXPECT_EQ(receive(bad).header.error, EMSGSIZE);
}

// It sends commands and reads nothing: its answers wait, and everybody else is served.
TEST_F(ServerTest, AProgramThatDoesNotReadBlocksNobody) {
  const UniqueFd deaf = connect();
  const UniqueFd good = connect();
  const Record question = make_record(abi::Command::kListDevices, abi::RequestHeader{});
  for (int i = 0; i < 100'000; ++i) {
    iovec part{const_cast<std::byte*>(question.bytes.data()), question.bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (::sendmsg(deaf.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      break;
    }
  }
  EXPECT_EQ(ask(good, abi::Command::kListDevices).header.error, 0);
}

TEST_F(ServerTest, TooManySessionsAreRefusedWithAReason) {
  std::vector<UniqueFd> connections;
  for (std::uint64_t i = 0; i < facts_of(Limit::kSessions).of_daemon; ++i) {
    connections.push_back(connect());
  }
  EXPECT_EQ(ask(connections.back(), abi::Command::kListDevices).header.error, 0);
  const UniqueFd one_more = connect();
  const Answer answer = receive(one_more);
  EXPECT_EQ(answer.header.error, ENOMEM);
  EXPECT_EQ(answer.header.sequence, 0U);
}

TEST(Server, NoUserTakesAllSessions) {
  Rig rig;
  std::vector<std::unique_ptr<Program>> programs;
  const auto admitted = [&](uid_t user) {
    auto program = std::make_unique<Program>(rig, user);
    const bool yes = program->session.admit().has_value();
    if (yes) {
      programs.push_back(std::move(program));
    }
    return yes;
  };
  const auto take_all = [&](uid_t user) {
    int taken = 0;
    for (; admitted(user); ++taken) {
    }
    return taken;
  };
  constexpr int kOrdinary = 1'024 - 1'024 / 64;
  const uid_t greedy = ::geteuid() + 1, another = ::geteuid() + 2;
  EXPECT_EQ(take_all(greedy), kOrdinary / 2);
  EXPECT_EQ(take_all(another), kOrdinary / 4);
  EXPECT_EQ(take_all(::geteuid() + 3), kOrdinary / 8);
  EXPECT_TRUE(admitted(0)) << "uroce status still gets in";
  EXPECT_FALSE(admitted(greedy));
}

// A program that connects and closes in a loop would otherwise keep the control thread at its
// listener forever.
TEST(Server, ATurnAcceptsSomeProgramsAndLeavesTheOthersToTheNext) {
  constexpr std::size_t kPrograms = 64, kOfTwoTurns = 32;
  constexpr int kTurnsMax = 1'000;
  Rig rig;
  const test::TemporaryFolder folder;
  const std::string path = folder / "s";
  const auto server = Server::listen(rig.services, path, 0600);
  ASSERT_TRUE(server) << server.error().message;
  std::vector<UniqueFd> programs;
  for (std::size_t i = 0; i < kPrograms; ++i) {
    auto program = connect_to(path);
    ASSERT_TRUE(program) << program.error().message;
    programs.push_back(std::move(*program));
  }
  const UniqueFd signals(::eventfd(1, EFD_CLOEXEC));  // stays readable: something else to do
  std::size_t accepted = 0, most = 0;
  int turns = 0;
  (*server)->run(signals.get(), [&] {
    const std::size_t now = rig.card.sessions().size();
    most = std::max(most, now - accepted);
    accepted = now;
    return accepted == kPrograms || ++turns == kTurnsMax;
  });
  EXPECT_EQ(accepted, kPrograms);
  EXPECT_LE(most, kOfTwoTurns) << "between two checks the listener has at most two turns";
}

// The client's descriptor is the last one allowed, so the server has none left to accept with.
TEST_F(ServerTest, WithoutFreeDescriptorsProgramsAreTurnedAway) {
  const UniqueFd first = connect();
  EXPECT_EQ(ask(first, abi::Command::kListDevices).header.error, 0);
  UniqueFd refused(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit full{.rlim_cur = static_cast<rlim_t>(refused.get()) + 1, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  EXPECT_EQ(::connect(refused.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  EXPECT_EQ(receive(refused).header.error, -1) << "closed, not left waiting";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ask(first, abi::Command::kListDevices).header.error, 0);
  EXPECT_EQ(ask(connect(), abi::Command::kListDevices).header.error, 0);
}

// By this clock each command of a user takes long, and so does the end of each session: the ends
// alternate with other users' commands, but all of them are carried out.
TEST_F(ServerTest, SessionsOfAThrottledUserEndOneAfterTheOther) {
  const auto account = rig.card.shares().of({.uid = ::getuid()});
  std::vector<UniqueFd> programs;
  for (int i = 0; i < 3; ++i) {
    programs.push_back(connect());
    EXPECT_EQ(
        ask(programs.back(), abi::Command::kOpenDevice, abi::OpenDeviceRequest{}).header.error, 0);
  }
  EXPECT_EQ(account->used(Limit::kSessions), 3U);
  step = ThrottledUsers::kLongCommand / 2;
  EXPECT_EQ(ask(programs.back(), abi::Command::kAllocPd).header.error, 0);
  programs.clear();
  while (account->used(Limit::kSessions) != 0) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace uroce::control
