// Two shm ports: transfer, back-pressure, and ends that disappear and come back.

#include "dataplane/port/shm/shm_port.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>

#include "dataplane/port/faults/faulty_port.h"
#include "tests/unit/port/shm_pair.h"

namespace uroce {
namespace {

using test::ShmPair;

using ShmPorts = ShmPair;

TEST_F(ShmPorts, ReportsItsInfo) {
  near_ = open(1);
  EXPECT_FALSE(near_->info().link_up);
  EXPECT_NE(near_->info().trouble.find(path()), std::string::npos);
  EXPECT_EQ(near_->info().mtu, kMtu);
  EXPECT_FALSE(near_->info().loops_back);
  far_ = open(2);
  expect_joined();
  wait_until([this] { return near_->info().trouble.empty(); });
  EXPECT_NE(near_->info().mac, far_->info().mac);
  EXPECT_FALSE(needs_eal(near_->info().name));
}

TEST_F(ShmPorts, CarriesPacketsOfAllSizesBothWays) {
  join();
  for (const std::uint32_t payload : {0U, 1U, 255U, 456U, 457U, 512U, 1'024U, 4'095U, 4'096U}) {
    for (auto [from, to] : {std::pair(near_.get(), far_.get()), {far_.get(), near_.get()}}) {
      ASSERT_TRUE(send(*from, build(*from, payload)));
      Frame* frame = receive(*to);
      ASSERT_NE(frame, nullptr);
      expect_payload(*frame);
      EXPECT_TRUE(frame->icrc_left_out);
      // Long payloads are read in place; the headers are a private copy.
      EXPECT_EQ(frame->lent != nullptr, frame->length > ShmLink::kWholeMax);
      to->release(&frame, 1);
    }
  }
  EXPECT_EQ(near_->counters().tx_frames, 9U);
  EXPECT_EQ(near_->counters().rx_frames, 9U);
  EXPECT_EQ(near_->counters().tx_bytes, far_->counters().rx_bytes);
}

TEST_F(ShmPorts, ALentFrameCanBeCompleted) {
  join();
  ASSERT_TRUE(send(*near_, build(*near_, 4'000)));
  Frame* frame = receive(*far_);
  ASSERT_NE(frame, nullptr);
  complete(*frame);
  EXPECT_EQ(frame->lent, nullptr);
  frame->icrc_checked = false;
  expect_payload(*frame);  // with the ICRC checked
  far_->release(&frame, 1);
}

TEST_F(ShmPorts, FaultyPortsAddAndCheckTheIcrc) {
  near_ = std::make_unique<FaultyPort>(open(1), Faults{.corrupt = 1});
  far_ = open(2);
  expect_joined();
  ASSERT_TRUE(send(*near_, build(*near_, 4'000)));
  Frame* frame = receive(*far_);
  ASSERT_NE(frame, nullptr);
  EXPECT_FALSE(frame->icrc_left_out);
  EXPECT_NE(parse(*frame), Drop::kNone);
  far_->release(&frame, 1);
  // Also for frames that come without an ICRC, and are corrupted on receipt.
  ASSERT_TRUE(send(*far_, build(*far_, 4'000)));
  frame = receive(*near_);
  ASSERT_NE(frame, nullptr);
  EXPECT_NE(parse(*frame), Drop::kNone);
  near_->release(&frame, 1);
}

TEST_F(ShmPorts, ADuplicatedFrameIsCheckedToo) {
  near_ = std::make_unique<FaultyPort>(open(1), Faults{.corrupt = 1});
  far_ = std::make_unique<FaultyPort>(open(2), Faults{.dup = 1});
  expect_joined();
  ASSERT_TRUE(send(*near_, build(*near_, 4'000)));
  for (int i = 0; i < 2; ++i) {
    Frame* frame = receive(*far_);
    ASSERT_NE(frame, nullptr);
    EXPECT_NE(parse(*frame), Drop::kNone);
    far_->release(&frame, 1);
  }
}

TEST_F(ShmPorts, AFullRingPushesBackAndLosesNothing) {
  join();
  std::uint32_t sent = 0;
  while (send(*near_, build(*near_, 600))) {
    ++sent;
  }
  EXPECT_EQ(sent, kShmRingEntries);
  EXPECT_EQ(near_->counters().tx_refused, 1U);
  std::uint32_t received = 0;
  while (Frame* frame = receive(*far_)) {
    ++received;
    far_->release(&frame, 1);
  }
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(send(*near_, build(*near_, 600)));
}

// However many frames one side holds, the other can go on sending.
TEST_F(ShmPorts, HeldFramesDoNotExhaustTheSender) {
  join();
  std::vector<Frame*> kept;
  std::uint32_t copied = 0;
  for (std::uint32_t i = 0; i < ShmPort::kReceivedPerQueue; ++i) {
    Frame* const frame = build(*near_, 4'096);
    ASSERT_NE(frame, nullptr) << i;
    ASSERT_TRUE(send(*near_, frame)) << i;
    kept.push_back(receive(*far_));
    ASSERT_NE(kept.back(), nullptr) << i;
    copied += kept.back()->lent == nullptr ? 1 : 0;
  }
  expect_payload(*kept.back());
  EXPECT_EQ(copied, ShmPort::kReceivedPerQueue - ShmLink::kSlotsPerQueue / ShmLink::kHeldShare);
  // No buffer is left: new frames wait in the ring.
  ASSERT_TRUE(send(*near_, build(*near_, 4'096)));
  EXPECT_EQ(receive(*far_), nullptr);
  far_->release(kept.data(), static_cast<std::uint32_t>(kept.size()));
  Frame* frame = receive(*far_);
  ASSERT_NE(frame, nullptr);
  expect_payload(*frame);
  far_->release(&frame, 1);
}

TEST_F(ShmPorts, AReturningPeerIsJoinedAgain) {
  join();
  std::vector<Frame*> held;
  for (std::uint32_t round = 0; round < 3; ++round) {
    ASSERT_TRUE(send(*near_, build(*near_, 2'000)));
    held.push_back(receive(*far_));
    ASSERT_NE(held.back(), nullptr);
    near_.reset();
    wait_until([this] { return !far_->info().link_up; });
    // Frames from the previous peer stay readable until they are released.
    expect_payload(*held.back());
    near_ = open(1);
    expect_joined();
  }
  far_->release(held.data(), static_cast<std::uint32_t>(held.size()));
}

TEST_F(ShmPorts, NothingIsSentWithoutAPeer) {
  near_ = open(1);
  EXPECT_FALSE(send(*near_, build(*near_, 100)));
  far_ = open(2);
  expect_joined();
  far_.reset();
  wait_until([this] { return !near_->info().link_up; });
  EXPECT_FALSE(send(*near_, build(*near_, 100)));
}

TEST_F(ShmPorts, ASleepingWorkerIsWoken) {
  join();
  EXPECT_TRUE(far_->arm_wait(0));
  pollfd bell{.fd = far_->wait_descriptor(0), .events = POLLIN, .revents = 0};
  std::uint64_t rung = 0;
  EXPECT_EQ(::read(bell.fd, &rung, sizeof(rung)), 8) << "it rang when the ports joined";
  ASSERT_TRUE(send(*near_, build(*near_, 10)));
  EXPECT_EQ(::poll(&bell, 1, 0), 1);
  // Rings once per nap.
  EXPECT_EQ(::read(bell.fd, &rung, sizeof(rung)), 8);
  ASSERT_TRUE(send(*near_, build(*near_, 10)));
  EXPECT_EQ(::poll(&bell, 1, 0), 0);
  far_->disarm_wait(0);
  EXPECT_FALSE(far_->arm_wait(0)) << "two frames are waiting";
  far_->disarm_wait(0);
  for (int i = 0; i < 2; ++i) {
    Frame* frame = receive(*far_);
    far_->release(&frame, 1);
  }
  ASSERT_TRUE(send(*near_, build(*near_, 10)));
  EXPECT_EQ(::poll(&bell, 1, 0), 0) << "a worker that is awake needs no bell";
}

TEST_F(ShmPorts, PortsWithDifferentNumbersOfQueuesJoin) {
  join(3, 2);
  for (std::uint16_t queue = 0; queue < 3; ++queue) {
    ASSERT_TRUE(send(*near_, build(*near_, 600), queue));
    Frame* frame = receive(*far_, queue % 2);
    ASSERT_NE(frame, nullptr) << queue;
    expect_payload(*frame);
    far_->release(&frame, 1);
  }
  for (std::uint16_t queue = 0; queue < 2; ++queue) {
    ASSERT_TRUE(send(*far_, build(*far_, 600), queue));
    Frame* frame = receive(*near_, queue);
    ASSERT_NE(frame, nullptr) << queue;
    near_->release(&frame, 1);
  }
  EXPECT_EQ(receive(*near_, 2), nullptr);
}

TEST_F(ShmPorts, AThirdPortIsRefused) {
  join();
  auto third = open(3);
  wait_until([&] { return third->info().trouble.find("joined to another") != std::string::npos; });
  EXPECT_FALSE(third->info().link_up);
  EXPECT_TRUE(near_->info().link_up);
  far_.reset();  // now there is room
  wait_until([&] { return third->info().link_up && near_->info().link_up; });
}

TEST_F(ShmPorts, FramesLongerThanThePeersMtuAreMissed) {
  near_ = open(1);
  far_ = open(2, 1, 1'500);
  expect_joined();
  EXPECT_NE(near_->info().trouble.find("1500"), std::string::npos) << near_->info().trouble;
  ASSERT_TRUE(send(*near_, build(*near_, 4'096)));
  ASSERT_TRUE(send(*near_, build(*near_, 1'024)));
  EXPECT_EQ(receive(*far_), nullptr);
  Frame* frame = receive(*far_);
  ASSERT_NE(frame, nullptr);
  expect_payload(*frame);
  far_->release(&frame, 1);
  EXPECT_EQ(far_->counters().rx_missed, 1U);
}

TEST_F(ShmPorts, ASocketThatADeadDaemonLeftIsRemoved) {
  {
    const int dead = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(dead);
  }
  join();
  near_.reset();
  far_.reset();
  struct stat about {};
  EXPECT_NE(::stat(path().c_str(), &about), 0) << "the ports remove theirs";
}

TEST_F(ShmPorts, OnlyItsUserMayConnect) {
  near_ = open(1);
  struct stat about {};
  wait_until([&] { return ::stat(path().c_str(), &about) == 0; });
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
}

TEST_F(ShmPorts, ALockFileThatIsALinkIsNotFollowed) {
  std::ofstream(folder_ / "elsewhere") << "a file";
  ASSERT_EQ(::symlink((folder_ / "elsewhere").c_str(), (path() + ".lock").c_str()), 0);
  near_ = open(1);
  wait_until([&] { return near_->info().trouble.find("remove it") != std::string::npos; });
  ASSERT_EQ(::unlink((path() + ".lock").c_str()), 0);
  far_ = open(2);
  expect_joined();
}

TEST_F(ShmPorts, RefusesInvalidSpecs) {
  std::ofstream(folder_ / "file") << "no socket";
  for (const std::string& spec :
       {std::string("shm"), std::string("shm,path="), "shm,file=" + path(),
        "shm,path=" + path() + ",more=1", "shm,path=" + std::string(200, 'x'),
        "shm,path=" + path() + "/no/such/folder", "shm,path=" + (folder_ / "file")}) {
    const auto port = make_port(spec, {});
    ASSERT_FALSE(port) << spec;
    EXPECT_EQ(port.error().message.find("port shm"), 0U);
  }
}

// With threads, as workers do: nothing is lost or duplicated, and all buffers come back.
TEST_F(ShmPorts, StreamsBetweenThreads) {
  join();
  constexpr std::uint32_t kFrames = 20'000;
  std::thread receiver([this] {
    for (std::uint32_t next = 0; next < kFrames;) {
      std::array<Frame*, kBurstMax> burst;
      const std::uint32_t count = far_->rx_burst(0, burst.data(), kBurstMax, 0);
      for (std::uint32_t i = 0; i < count; ++i, ++next) {
        ASSERT_EQ(parse(*burst[i]), Drop::kNone);
        ASSERT_EQ(burst[i]->packet.psn, next);
      }
      far_->release(burst.data(), count);
    }
  });
  for (std::uint32_t sent = 0; sent < kFrames;) {
    Frame* frame = build(*near_, sent % 2 == 0 ? 20 : 1'024);
    while (frame != nullptr && near_->tx_burst(0, &frame, 1, 0) == 0) {
      ::sched_yield();
    }
    sent += frame != nullptr ? 1 : 0;
  }
  receiver.join();
  EXPECT_EQ(far_->counters().rx_frames, kFrames);
}

}  // namespace
}  // namespace uroce
