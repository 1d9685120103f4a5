// A user with many sessions beside those who connect: how much of a turn of control its commands
// get. By the clock of these tests each look at it takes a while, and so does each command.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/server/server.h"
#include "tests/unit/control/program.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

constexpr Duration kStep = 1 * kNanosecondsPerMillisecond;
constexpr Duration kShortStep = 1 * kNanosecondsPerMicrosecond;
constexpr std::size_t kPrograms = 40;
// Each command takes three steps at least, and between two checks there may be two turns.
constexpr std::size_t kAnsweredMax = 12;
constexpr int kTurnsMax = 10'000;

bool is_readable(const UniqueFd& socket) {
  pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() {
    rig.card.set_clock([this] { return rig.now += step; });
    const std::string path = folder_ / "s";
    auto made = Server::listen(rig.services, path, 0600);
    EXPECT_TRUE(made) << made.error().message;
    server_ = std::move(*made);
    for (std::size_t i = 0; i < kPrograms; ++i) {
      auto program = connect_to(path);
      EXPECT_TRUE(program) << program.error().message;
      programs_.push_back(std::move(*program));
    }
  }
  template <typename Body>
  void send_all(abi::Command command, const Body& body) {
    for (const UniqueFd& program : programs_) {
      EXPECT_EQ(send_record(program.get(), make_record(command, body)), Sending::kSent);
    }
  }
  void receive_all(int error) {
    for (const UniqueFd& program : programs_) {
      EXPECT_EQ(receive(program).header.error, error);
    }
  }
  std::size_t answered() {
    return static_cast<std::size_t>(std::count_if(programs_.begin(), programs_.end(), is_readable));
  }
  // Runs the server until `done`, which it asks once a turn.
  template <typename Done>
  void run(const Done& done) {
    const UniqueFd signals(::eventfd(1, EFD_CLOEXEC));  // stays readable
    int turns = 0;
    server_->run(signals.get(), [&] { return done() || ++turns == kTurnsMax; });
    EXPECT_LT(turns, kTurnsMax);
  }

  Rig rig{std::make_unique<SilentPort>(), 1};
  Duration step = kShortStep;

 private:
  test::TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
  std::vector<UniqueFd> programs_;
};

TEST_F(TurnsTest, AUsersSessionsHaveALongCommandsTimeOfATurn) {
  send_all(abi::Command::kListDevices, abi::RequestHeader{});
  step = kStep;
  std::size_t before = 0, most = 0;
  run([&] {
    const std::size_t now = answered();
    most = std::max(most, now - before);
    before = now;
    return now == kPrograms;
  });
  EXPECT_LE(most, kAnsweredMax);
}

// All of them wait for the same address, which nobody has.
TEST_F(TurnsTest, CommandsThatHaveWaitedTakeTurns) {
  abi::ResolveGidRequest request{};
  const Gid peer = *parse_ip("10.0.0.2");
  std::copy(peer.bytes.begin(), peer.bytes.end(), std::begin(request.address.dgid));
  request.address.sgid_index = 1;
  request.address.is_global = request.address.port = 1;
  send_all(abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
  bool asked = false;
  std::size_t before = 0, most = 0;
  run([&] {
    const std::size_t now = answered();
    if (!asked) {
      if (now == kPrograms) {
        receive_all(0);
        send_all(abi::Command::kResolveGid, request);
        asked = true;
      }
      return false;
    }
    step = kStep;
    most = std::max(most, now - before);
    before = now;
    return now == kPrograms;
  });
  receive_all(EHOSTUNREACH);
  EXPECT_LE(most, kAnsweredMax);
}

}  // namespace
}  // namespace uroce::control
