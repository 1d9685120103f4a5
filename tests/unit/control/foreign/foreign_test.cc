// Descriptors whose close() blocks for a long time, and the threads in which that may happen:
// control goes on, and the user who passed them is told.

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <future>
#include <new>
#include <thread>

#include "base/time/monotonic_clock.h"
#include "control/server/server.h"
#include "tests/unit/control/foreign/lingering_socket.h"
#include "tests/unit/control/program.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

using abi::Command;

// The user's helper does nothing meanwhile: so the daemon doesn't close its copy of a descriptor
// before the test has closed its own, and it is the daemon that closes the last one.
class HeldHelper {
 public:
  explicit HeldHelper(HelperPool& helpers) {
    EXPECT_TRUE(helpers.run({.uid = ::getuid()},
                            [released = released_.get_future().share()] { released.wait(); }));
  }
  ~HeldHelper() { released_.set_value(); }
  HeldHelper(const HeldHelper&) = delete;
  HeldHelper& operator=(const HeldHelper&) = delete;

 private:
  std::promise<void> released_;
};

class Foreign : public ::testing::Test {
 protected:
  Foreign() {
    rig.card.set_clock(monotonic_now);
    EXPECT_TRUE(rig.card.engine().start());
    auto made = Server::listen(rig.services, folder_ / "s", 0600);
    EXPECT_TRUE(made);
    server_ = std::move(*made);
    thread_ = std::thread([this] { server_->run(stop_.get()); });
    victim = connect();
  }
  ~Foreign() override {
    lingering.give_way();
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof(one)), 8);
    thread_.join();
    server_.reset();
    rig.card.engine().stop();
  }

  // Waits for an answer first: from Linux 6.16 on, descriptors may be passed only after one.
  UniqueFd connect() {
    auto connection = connect_to(folder_ / "s");
    EXPECT_TRUE(connection);
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(
        ask(*connection, make_record(Command::kListDevices, abi::RequestHeader{})).header.error, 0);
    return std::move(*connection);
  }
  static Answer ask(const UniqueFd& connection, Record record) {
    EXPECT_EQ(send_record(connection.get(), record), Sending::kSent);
    return receive(connection);
  }
  // Leaves the last reference to the descriptor to the daemon.
  static void pass(const UniqueFd& connection, Command command, UniqueFd descriptor) {
    Record record = make_record(command, abi::ShareArenaRequest{});
    record.descriptors.push_back(std::move(descriptor));
    abi::RequestHeader header;
    std::memcpy(&header, record.bytes.data(), sizeof(header));
    header.descriptor_count = 1;
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    ASSERT_EQ(send_record(connection.get(), record), Sending::kSent);
  }
  void pass_lingering(const UniqueFd& connection, Command command) {
    const HeldHelper held(*rig.services.helpers);
    pass(connection, command, lingering.take());
  }
  void expect_that_others_are_served() {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ask(victim, make_record(Command::kListDevices, abi::RequestHeader{})).header.error,
              0);
    const UniqueFd late = connect();
    constexpr std::chrono::seconds kLingering{60};
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kLingering / 2);
  }

  LingeringSocket lingering;
  Rig rig;
  UniqueFd victim;

 private:
  test::TemporaryFolder folder_;
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(Foreign, ADescriptorThatTakesForEverToCloseBlocksOnlyItsUsersDescriptors) {
  const UniqueFd attacker = connect();
  pass_lingering(attacker, Command::kShareArena);
  expect_that_others_are_served();
  const Answer late = receive(attacker);
  EXPECT_EQ(late.header.error, ETIMEDOUT);
  EXPECT_NE(late.message().find("doesn't answer"), std::string::npos) << late.message();
  // Other programs of the user are told why, but only if they pass something.
  while (rig.services.helpers->check({.uid = ::getuid()})) {
    std::this_thread::yield();  // the helper's time limit started later than the record's
  }
  const UniqueFd memfd(::memfd_create("arena", MFD_CLOEXEC));
  pass(victim, Command::kShareArena, UniqueFd(::dup(memfd.get())));
  const Answer refused = receive(victim);
  EXPECT_EQ(refused.header.error, EBUSY);
  EXPECT_NE(refused.message().find("the daemon has waited for"), std::string::npos)
      << refused.message();
  victim = connect();
  lingering.give_way();
  while (!rig.services.helpers->check({.uid = ::getuid()})) {
    std::this_thread::yield();
  }
  victim = connect();
  pass(victim, Command::kShareArena, UniqueFd(::dup(memfd.get())));
  EXPECT_EQ(receive(victim).header.error, EBADF) << "it is examined now: no device is open";
}

TEST_F(Foreign, OfARefusedRecordBlocksNobody) {
  const UniqueFd attacker = connect();
  pass_lingering(attacker, static_cast<Command>(9'999));
  expect_that_others_are_served();
}

// The second record is never received: it is discarded with the connection.
TEST_F(Foreign, OfAnUnreceivedRecordBlocksNobody) {
  UniqueFd attacker;
  Record record = make_record(Command::kShareArena, abi::ShareArenaRequest{});
  auto held = std::make_unique<HeldHelper>(*rig.services.helpers);
  record.descriptors.push_back(lingering.take());
  do {  // the first record may end the connection before the second is sent
    attacker = connect();
    ASSERT_EQ(::send(attacker.get(), "nonsense", 8, 0), 8);
  } while (send_record(attacker.get(), record) != Sending::kSent);
  record.descriptors.clear();
  held.reset();
  attacker.reset();
  expect_that_others_are_served();
}

TEST_F(Foreign, ManyAtOnceBlockNobody) {
  const UniqueFd attacker = connect();
  auto held = std::make_unique<HeldHelper>(*rig.services.helpers);
  UniqueFd slow = lingering.take();
  Record record = make_record(Command::kListDevices, abi::RequestHeader{});
  for (std::uint32_t i = 0; i < kDescriptorsMax; ++i) {
    record.descriptors.emplace_back(::fcntl(slow.get(), F_DUPFD_CLOEXEC, 0));
  }
  ASSERT_EQ(send_record(attacker.get(), record), Sending::kSent);
  record.descriptors.clear();
  slow.reset();
  held.reset();
  expect_that_others_are_served();
}

// Opening a file of another process waits for that process's locks, so a helper does it; here the
// helper is busy closing a descriptor.
TEST_F(Foreign, ARegistrationIsRefusedWhileTheUsersHelperHangs) {
  const UniqueFd program = connect();
  EXPECT_EQ(ask(program, make_record(Command::kOpenDevice, abi::OpenDeviceRequest{})).header.error,
            0);
  EXPECT_EQ(ask(program, make_record(Command::kAllocPd, abi::RequestHeader{})).header.error, 0);
  struct alignas(abi::RegMrRequest) Body {
    std::byte bytes[sizeof(abi::RegMrRequest) + sizeof(abi::MemoryPiece)];
  } body{};
  auto& request = *reinterpret_cast<abi::RegMrRequest*>(body.bytes);
  request.address = request.iova = reinterpret_cast<std::uint64_t>(&body) & ~0xFFFULL;
  request.length = 8;
  request.piece_count = 1;
  request.pieces[0].address = request.address;
  request.pieces[0].length = 4096;
  request.pieces[0].kind = abi::PieceKind::kProcMem;
  const UniqueFd attacker = connect();
  pass_lingering(attacker, Command::kShareArena);
  expect_that_others_are_served();
  const Answer refused = ask(program, make_record(Command::kRegMr, body));
  EXPECT_EQ(refused.header.error, EBUSY) << refused.message();
  lingering.give_way();
  while (!rig.services.helpers->check({.uid = ::getuid()})) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ask(program, make_record(Command::kRegMr, body)).header.error, 0);
}

TEST(ForeignSockets, StayChargedUntilAHelperHasClosedThem) {
  Amounts amounts;
  amounts.fill(64);
  Shares shares(amounts);
  const auto account = shares.of({.uid = ::geteuid() + 1});
  auto charge = account->charge(Limit::kDescriptors);
  ASSERT_TRUE(charge);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  LingeringSocket lingering;
  Record record = make_record(Command::kListDevices, abi::RequestHeader{});
  record.descriptors.push_back(lingering.take());
  ASSERT_EQ(send_record(theirs.get(), record), Sending::kSent);
  record = {};
  auto helpers = std::make_shared<HelperPool>();
  { const ForeignSocket socket(std::move(ours), account->user(), helpers, std::move(*charge)); }
  EXPECT_EQ(account->used(Limit::kDescriptors), 1U);
  lingering.give_way();
  while (account->used(Limit::kDescriptors) != 0) {
    std::this_thread::yield();
  }
}

TEST(ForeignSockets, TellWhetherARecordIsPending) {
  const auto pair = [](UniqueFd& ours, UniqueFd& theirs) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
  };
  UniqueFd ours, theirs;
  pair(ours, theirs);
  EXPECT_TRUE(nothing_waits(ours.get()));
  ASSERT_EQ(::send(theirs.get(), nullptr, 0, 0), 0);
  EXPECT_FALSE(nothing_waits(ours.get())) << "a record of no bytes may have descriptors";
  pair(ours, theirs);
  ASSERT_EQ(::send(theirs.get(), "x", 1, 0), 1);
  EXPECT_FALSE(nothing_waits(ours.get()));
  pair(ours, theirs);
  theirs.reset();
  EXPECT_TRUE(nothing_waits(ours.get()));
  // The peer closes without having read: the kernel reports that as an error first.
  pair(ours, theirs);
  ASSERT_EQ(::send(ours.get(), "x", 1, 0), 1);
  ASSERT_EQ(::send(theirs.get(), "x", 1, 0), 1);
  theirs.reset();
  EXPECT_FALSE(nothing_waits(ours.get()));
}

// A user whose helper hangs doesn't get a second one; other users have their own, up to a bound.
TEST(HelperThreads, OnePerUser) {
  auto helpers = std::make_shared<HelperPool>(kNanosecondsPerMillisecond);
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  constexpr User kHangs{.uid = 1'001}, kOther{.uid = 1'002};
  ASSERT_TRUE(helpers->run(kHangs, [released] { released.wait(); }));
  while (helpers->check(kHangs)) {
    std::this_thread::yield();
  }
  const Status refused = helpers->run(kHangs, [] {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  std::promise<void> done;
  ASSERT_TRUE(helpers->run(kOther, [&done] { done.set_value(); }));
  done.get_future().wait();
  EXPECT_LE(helpers->threads(), 3U) << "one per user, and a spare one";
  for (uid_t user = 2'000; user < 2'000 + 2 * HelperPool::kHelpersMax; ++user) {
    ASSERT_TRUE(helpers->run({.uid = user}, [released] { released.wait(); }));
  }
  while (helpers->threads() < HelperPool::kHelpersMax) {
    std::this_thread::yield();
  }
  EXPECT_EQ(helpers->threads(), HelperPool::kHelpersMax);
  release.set_value();
  std::promise<void> last;
  while (!helpers->run({.uid = 2'000 + 2 * HelperPool::kHelpersMax - 1},
                       [&last] { last.set_value(); })) {
    std::this_thread::yield();
  }
  last.get_future().wait();
}

// Later, starting a thread may fail.
TEST(HelperThreads, TheSpareOneCanBeStartedInAdvance) {
  HelperPool helpers;
  ASSERT_TRUE(helpers.start_spare());
  EXPECT_EQ(helpers.threads(), 1U);
  ASSERT_TRUE(helpers.start_spare());
  EXPECT_EQ(helpers.threads(), 1U) << "there is one already";
  std::promise<void> done;
  ASSERT_TRUE(helpers.run({.uid = 1'001}, [&done] { done.set_value(); }));
  done.get_future().wait();
}

TEST(HelperThreads, GoOnWhenAJobRunsOutOfMemory) {
  HelperPool helpers;
  constexpr User kAsks{.uid = 1'001};
  ASSERT_TRUE(helpers.run(kAsks, [] { throw std::bad_alloc(); }));
  std::promise<void> done;
  ASSERT_TRUE(helpers.run(kAsks, [&done] { done.set_value(); }));
  done.get_future().wait();
}

// The whole daemon is stopped for longer than a job may take: no user is to be blamed.
TEST(HelperThreads, TimeWhileTheDaemonIsStoppedDoesntCount) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd continued(ends[0]), parent(ends[1]);
  const pid_t daemon = ::fork();
  ASSERT_GE(daemon, 0);
  if (daemon == 0) {
    ::alarm(60);
    parent.reset();
    HelperPool helpers;
    constexpr User kAsks{.uid = 1'001};
    std::promise<void> never;
    const Status asked = helpers.run(kAsks, [&never] {
      ::kill(::getpid(), SIGSTOP);
      never.get_future().wait();
    });
    pollfd hang_up{.fd = continued.get(), .events = POLLIN, .revents = 0};
    while (::poll(&hang_up, 1, 50) == 0) {
      (void)helpers.next_check();
    }
    const bool looks_on = helpers.next_check() != kNever;
    ::_exit(asked && looks_on && helpers.check(kAsks) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(daemon, &status, WUNTRACED), daemon);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * HelperPool::kTimeout));
  ASSERT_EQ(::kill(daemon, SIGCONT), 0);
  parent.reset();
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "ended with " << status;
}

// Root of a container can become every user in it, and make the jobs of all of them hang.
TEST(HelperThreads, OneUserNamespaceGetsAtMostHalf) {
  auto helpers = std::make_shared<HelperPool>(kNanosecondsPerMillisecond);
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  constexpr std::uint64_t kContainer = 4'026'532'000;
  std::atomic<std::size_t> hanging{0};
  for (uid_t user = 0; user < 2 * HelperPool::kHelpersMax; ++user) {
    ASSERT_TRUE(helpers->run({.uid = 100'000 + user, .user_namespace = kContainer}, [&, released] {
      ++hanging;
      released.wait();
    }));
  }
  while (hanging < HelperPool::kHelpersMax / 2) {
    std::this_thread::yield();
  }
  for (const User& other :
       {User{.uid = 1'001}, User{.uid = 100'000, .user_namespace = kContainer + 1}}) {
    std::promise<void> done;
    ASSERT_TRUE(helpers->run(other, [&done] { done.set_value(); }));
    done.get_future().wait();
  }
  EXPECT_EQ(hanging, HelperPool::kHelpersMax / 2);
  release.set_value();
  while (hanging < 2 * HelperPool::kHelpersMax) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace uroce::control
