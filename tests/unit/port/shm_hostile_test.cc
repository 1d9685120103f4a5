// A shm port whose peer is hostile: whatever it writes is counted, and at most ends the connection.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <bit>
#include <functional>
#include <optional>
#include <span>

#include "base/event_fd.h"
#include "base/sockets/descriptor_message.h"
#include "dataplane/port/shm/shm_rendezvous.h"
#include "tests/unit/port/shm_pair.h"

namespace uroce {
namespace {

class ShmHostile : public test::ShmPair {
 protected:
  static constexpr std::uint32_t kSlots = 16, kStride = 4'288;

  // The port listens, and the test connects.
  void connect() {
    if (near_ == nullptr) {
      near_ = open(1);
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    connection_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    wait_until([&] {
      return ::connect(connection_.get(), reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address)) == 0;
    });
  }
  void say(const ShmHello& hello, std::span<const int> passed) {
    const auto bytes = std::as_bytes(std::span(&hello, 1));
    ASSERT_EQ(send_message(connection_.get(), bytes, passed), static_cast<ssize_t>(bytes.size()));
  }
  // Up to here the test behaves like a port.
  void join_near() {
    connect();
    auto made = ShmMemory::make(kSlots, kStride);
    ASSERT_TRUE(made);
    memory_.emplace(std::move(*made));
    say(hello_, std::array{memory_->descriptor(), bell_.get()});
    wait_until([this] { return near_->info().link_up; });
  }
  void send_descriptor(ShmDescriptor descriptor) {
    ShmRing& ring = memory_->records().rings[0];
    ring.entries[sent_++ % kShmRingEntries].store(std::bit_cast<std::uint64_t>(descriptor));
    ring.sent.value.store(sent_);
  }
  void expect_ended() {
    wait_until([this] { return !near_->info().link_up; });
  }

  ShmHello hello_{.queues = 1, .slots = kSlots, .stride = kStride, .mtu = kMtu};
  UniqueFd connection_;
  std::optional<ShmMemory> memory_;
  EventFd bell_;
  std::uint32_t sent_ = 0;
};

TEST_F(ShmHostile, SlotsAndLengthsBeyondItsMemoryAreRefused) {
  const std::array<ShmDescriptor, 4> wrong{
      ShmDescriptor{.slot = kSlots, .offset = 0, .length = 100, .flags = 0},
      ShmDescriptor{.slot = 65'535, .offset = 0, .length = 100, .flags = 0},
      ShmDescriptor{.slot = 0, .offset = kStride - 99, .length = 100, .flags = 0},
      ShmDescriptor{.slot = 0, .offset = 65'535, .length = 65'535, .flags = 0}};
  for (const ShmDescriptor& descriptor : wrong) {
    sent_ = 0;
    join_near();
    const std::uint64_t missed = near_->counters().rx_missed;
    send_descriptor(descriptor);
    EXPECT_EQ(receive(*near_), nullptr);
    EXPECT_EQ(near_->counters().rx_missed, missed + 1);
    expect_ended();
  }
}

TEST_F(ShmHostile, ASlotSentTwiceIsReceivedTwice) {
  join_near();
  const ShmDescriptor descriptor{.slot = 3, .offset = 0, .length = 1'000, .flags = 1};
  send_descriptor(descriptor);
  send_descriptor(descriptor);
  std::array<Frame*, 2> frames{receive(*near_), receive(*near_)};
  ASSERT_TRUE(frames[0] != nullptr && frames[1] != nullptr);
  EXPECT_NE(frames[0]->data, frames[1]->data);
  near_->release(frames.data(), 2);  // returns the slot twice: the sender's own problem
  send_descriptor({.slot = 4, .offset = 0, .length = 100, .flags = 1});
  Frame* frame = receive(*near_);
  ASSERT_NE(frame, nullptr) << "the connection has ended";
  near_->release(&frame, 1);
}

TEST_F(ShmHostile, HeadersCannotChangeAfterTheCheck) {
  join_near();
  std::byte* const slot = memory_->slot(0);
  test::OwnedFrame built;
  test::build(built, test::random_path(random_, {}), {.opcode = Opcode::kRcSendOnly},
              test::random_bytes(random_, 2'000), 1);
  std::copy_n(built.frame.data, built.frame.length, slot);
  send_descriptor({.slot = 0,
                   .offset = 0,
                   .length = static_cast<std::uint16_t>(built.frame.length),
                   .flags = 0});
  Frame* frame = receive(*near_);
  ASSERT_NE(frame, nullptr);
  std::fill_n(slot, Frame::kHeadBytes, std::byte{0xFF});
  EXPECT_EQ(parse_headers(*frame), Drop::kNone);
  EXPECT_EQ(frame->packet.payload_length, 2'000U);
  near_->release(&frame, 1);
}

TEST_F(ShmHostile, NonsenseCursorsEndTheConnection) {
  const auto return_slot = [](ShmRecords& records, std::uint32_t slot) {
    records.returns[0].store(slot);
    records.returned.value.store(1);
  };
  const std::array<std::function<void(ShmRecords&)>, 6> deeds{
      [](ShmRecords& records) { records.rings[0].sent.value.store(kShmRingEntries + 1); },
      [](ShmRecords& records) { records.taken[0].value.store(7); },
      [](ShmRecords& records) { records.returned.value.store(kShmSlotsMax + 1); },
      [&](ShmRecords& records) { return_slot(records, 0); },  // a slot that it holds
      [&](ShmRecords& records) { return_slot(records, kShmSlotsMax); },
      [&](ShmRecords& records) { return_slot(records, ~0U); }};
  for (std::size_t i = 0; i < deeds.size(); ++i) {
    SCOPED_TRACE(i);
    join_near();
    deeds[i](memory_->records());
    EXPECT_EQ(receive(*near_), nullptr);
    Frame* frame = build(*near_, 100);
    ASSERT_NE(frame, nullptr);
    EXPECT_FALSE(send(*near_, frame)) << "no more frames are sent to it";
    expect_ended();
  }
}

TEST_F(ShmHostile, APeerThatReturnsNoSlotsStopsOnlyItsOwnTraffic) {
  join_near();
  std::uint32_t sent = 0;
  while (send(*near_, build(*near_, 100))) {
    memory_->records().taken[0].value.store(++sent);
  }
  EXPECT_GT(sent, kShmRingEntries);
  // The port refuses frames for it, which workers count as lost, and there are other frames for
  // local use.
  std::vector<Frame*> local;
  for (Frame* frame = build(*near_, 100); frame != nullptr; frame = build(*near_, 100)) {
    local.push_back(frame);
  }
  EXPECT_EQ(local.size(), sent / (ShmLink::kLentParts - 1));
  near_->release(local.data(), static_cast<std::uint32_t>(local.size()));
  EXPECT_FALSE(send(*near_, build(*near_, 100)));
  // If it returns slots after all, as many frames can be sent.
  constexpr std::uint32_t kReturned = 5;
  for (std::uint32_t slot = 0; slot < kReturned; ++slot) {
    memory_->records().returns[slot].store(slot);
  }
  memory_->records().returned.value.store(kReturned);
  for (std::uint32_t i = 0; i < kReturned; ++i) {
    EXPECT_TRUE(send(*near_, build(*near_, 100))) << i;
  }
  EXPECT_FALSE(send(*near_, build(*near_, 100)));
  connection_.reset();
  expect_ended();
  Frame* frame = build(*near_, 100);
  ASSERT_NE(frame, nullptr) << "there is other memory for the next connection";
  near_->release(&frame, 1);
}

TEST_F(ShmHostile, MemoryOfARefusedPeerIsNotGivenToTheNext) {
  connect();
  auto memory_passed = [this] {
    ShmHello theirs;
    Descriptors came;
    const ReceivedMessage message =
        receive_message(connection_.get(), std::as_writable_bytes(std::span(&theirs, 1)), 0, &came);
    EXPECT_EQ(message.length, static_cast<ssize_t>(sizeof(theirs)));
    struct stat about {};
    EXPECT_EQ(::fstat(came.take(0).get(), &about), 0);
    return about.st_ino;
  };
  const ino_t first = memory_passed();
  ShmHello wrong = hello_;
  wrong.magic = 1;
  say(wrong, std::array{bell_.get(), bell_.get()});
  connect();
  EXPECT_NE(memory_passed(), first);
}

TEST_F(ShmHostile, NonsenseHellosAreRefused) {
  auto memory = ShmMemory::make(kSlots, kStride);
  ASSERT_TRUE(memory);
  const UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(ShmMemory::kFramesOffset) +
                                            std::int64_t{kSlots} * kStride),
            0);
  const UniqueFd open_to_all(::memfd_create("open to all", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open_to_all.get(), static_cast<off_t>(ShmMemory::kFramesOffset) +
                                               std::int64_t{kSlots} * kStride),
            0);
  ASSERT_EQ(::fcntl(open_to_all.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]), writing(ends[1]);
  auto with = [this](auto change) {
    ShmHello hello = hello_;
    change(hello);
    return hello;
  };
  struct Case {
    const char* what;
    ShmHello hello;
    std::vector<int> passed;
  };
  const std::vector<int> right{memory->descriptor(), bell_.get()};
  const std::array<Case, 12> cases{
      Case{"other magic", with([](ShmHello& h) { h.magic = 1; }), right},
      Case{"other version", with([](ShmHello& h) { h.version = 2; }), right},
      Case{"no queue", with([](ShmHello& h) { h.queues = 0; }), {memory->descriptor()}},
      Case{"a bell too few", with([](ShmHello& h) { h.queues = 2; }), right},
      Case{"many queues", with([](ShmHello& h) { h.queues = ~0U; }), right},
      Case{"many slots", with([](ShmHello& h) { h.slots = ~0U; }), right},
      Case{"more than there is", with([](ShmHello& h) { h.slots = kSlots + 1; }), right},
      Case{"long slots", with([](ShmHello& h) { h.stride = ~0U; }), right},
      Case{"memory that can become shorter", hello_, {unsealed.get(), bell_.get()}},
      Case{"memory that anybody can write to", hello_, {open_to_all.get(), bell_.get()}},
      Case{"no memory", hello_, {writing.get(), bell_.get()}},
      Case{"a bell that may have to be waited for", hello_, {memory->descriptor(), writing.get()}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    connect();
    say(one.hello, one.passed);
    char byte = 0;
    ssize_t got = 0;
    do {  // its hello, then the end
      got = ::recv(connection_.get(), &byte, sizeof(byte), 0);
    } while (got > 0);
    EXPECT_FALSE(near_->info().link_up);
  }
  join_near();
}

}  // namespace
}  // namespace uroce
