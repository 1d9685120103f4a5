// Invalidations of two programs at the same time: one with much to invalidate doesn't make the
// other wait until all of it is done.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "abi/paging_records.h"
#include "abi/version.h"
#include "base/sockets/record_socket.h"
#include "base/time.h"
#include "control/paging/paging_service.h"
#include "mmu/proc_mem/proc_mem.h"
#include "mmu/quiescence.h"
#include "tests/unit/mmu/held_up.h"

namespace uroce::control {
namespace {

constexpr std::uint64_t kMuchBase = 0x1000'0000'0000;

class InvalidationTurns : public ::testing::Test {
 protected:
  struct Program {
    std::shared_ptr<Mirror> mirror;
    PagingService::Channels channels;
  };

  // A program with so many chunks of known memory, none of which can be mapped.
  // `memory`: of the program, for what can't be mapped.
  Program open(uid_t user, std::size_t chunks, UniqueFd memory = {}) {
    const Peer peer{::getpid(), ::getuid(), 0};
    auto mirror = *service_.make_mirror(std::move(memory), 1, shares_.of({.uid = user}));
    const MirrorPiece slow{.address = kMuchBase, .length = chunks * Mirror::kChunk};
    mirror->describe(kMuchBase, kMuchBase + slow.length, {&slow, 1}, mirror->changes());
    EXPECT_EQ(mirror->chunk_count(), chunks);
    auto channels = service_.open(mirror, peer);
    const int yes = 1;
    EXPECT_EQ(
        ::setsockopt(channels->invalidate.get(), SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof(yes)), 0);
    return {std::move(mirror), std::move(*channels)};
  }
  static UniqueFd own_memory() {
    return std::move(open_proc_mem(ProgramProcess(::getpid(), ::getuid(), ::getgid())).value());
  }
  static void take_away(const Program& program, std::uint64_t address, std::uint64_t length,
                        std::uint32_t sequence = 1) {
    send(program, abi::Invalidate{.header = {.version = abi::kVersion,
                                             .kind = abi::PagingKind::kInvalidate,
                                             .sequence = sequence,
                                             .length = sizeof(abi::Invalidate)},
                                  .address = address,
                                  .length = length,
                                  .reason = abi::InvalidateReason::kUnmap,
                                  .reserved = 0});
  }
  static void end(const Program& program, std::uint32_t sequence) {
    send(program, abi::PagingHeader{.version = abi::kVersion,
                                    .kind = abi::PagingKind::kInvalidateEnd,
                                    .sequence = sequence,
                                    .length = sizeof(abi::PagingHeader)});
  }
  template <typename Announcement>
  static void send(const Program& program, const Announcement& announcement) {
    Record record;
    record.bytes.resize(sizeof(announcement));
    std::memcpy(record.bytes.data(), &announcement, sizeof(announcement));
    ASSERT_EQ(send_record(program.channels.invalidate.get(), record), Sending::kSent);
  }
  // The time at which the daemon sent its answer.
  static Time answered(const Program& program) {
    abi::PagingHeader header;
    iovec bytes{&header, sizeof(header)};
    alignas(cmsghdr) std::array<char, 64> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_EQ(::recvmsg(program.channels.invalidate.get(), &message, 0),
              static_cast<ssize_t>(sizeof(header)));
    EXPECT_EQ(header.kind, abi::PagingKind::kInvalidated);
    const cmsghdr* const stamp = CMSG_FIRSTHDR(&message);
    if (stamp == nullptr || stamp->cmsg_type != SO_TIMESTAMPNS) {
      ADD_FAILURE() << "the answer has no timestamp";
      return 0;
    }
    timespec time{};
    std::memcpy(&time, CMSG_DATA(stamp), sizeof(time));
    return static_cast<Time>(time.tv_sec) * kNanosecondsPerSecond + static_cast<Time>(time.tv_nsec);
  }

  Shares shares_;
  Quiescence quiescence_;
  PagingQueues queues_{1, {}};
  PagingService service_{queues_, quiescence_};
};

// Both invalidations arrive before the thread first looks.
TEST_F(InvalidationTurns, ALargeOneLetsASmallOneGoFirst) {
  const Program much = open(1'000, 16 * Mirror::kSliceChunks);
  const Program little = open(1'001, 1);
  take_away(much, 0, Mirror::kAddressEnd);
  take_away(little, kMuchBase, Mirror::kPage);
  ASSERT_TRUE(service_.start());
  const Time first = answered(little);
  EXPECT_LT(first, answered(much));
  EXPECT_EQ(much.mirror->chunk_count(), 0U);
  EXPECT_EQ(little.mirror->chunk_count(), 1U);
  service_.close(much.mirror);
  service_.close(little.mirror);
}

// Whoever drops the last reference to the mirror then has little to unmap.
TEST_F(InvalidationTurns, TheMirrorOfAnEndedProgramIsEmptyWhenReleased) {
  const Program ended = open(1'000, 2 * Mirror::kSliceChunks + 1);
  ASSERT_TRUE(service_.start());
  service_.close(ended.mirror);
  while (ended.mirror.use_count() != 1) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(ended.mirror->closed());
  EXPECT_EQ(ended.mirror->chunk_count(), 0U);
}

// A program may outlive the session that the daemon ends: if it waits for an answer, it is told at
// once that there will be none. A worker that hasn't ended its turn delays the first slice.
TEST_F(InvalidationTurns, AProgramWhoseSessionIsEndedDoesntWaitForTheSlices) {
  const Program ended = open(1'000, 2 * Mirror::kSliceChunks + 1);
  quiescence_.online(0);
  ASSERT_TRUE(service_.start());
  service_.close(ended.mirror);
  char byte = 0;
  EXPECT_EQ(::recv(ended.channels.invalidate.get(), &byte, 1, 0), 0);
  EXPECT_NE(ended.mirror->chunk_count(), 0U);
  quiescence_.offline(0);
  while (ended.mirror.use_count() != 1) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ended.mirror->chunk_count(), 0U);
}

// The program may take the memory away as soon as it is told: not while a copy that was begun for
// the session is still reading or writing it.
TEST_F(InvalidationTurns, AProgramWhoseSessionIsEndedWaitsForItsCopies) {
  const Program ended = open(1'000, 1, own_memory());
  test::HeldUp copy(*ended.mirror->program());
  ASSERT_TRUE(service_.start());
  service_.close(ended.mirror);
  while (ended.mirror.use_count() != 1) {
    std::this_thread::yield();
  }
  char byte = 0;
  EXPECT_EQ(::recv(ended.channels.invalidate.get(), &byte, 1, MSG_DONTWAIT), -1);
  copy.release();
  EXPECT_EQ(::recv(ended.channels.invalidate.get(), &byte, 1, 0), 0);
}

// As many as the shim's changers announce at a time, with two ranges each.
TEST_F(InvalidationTurns, OutstandingOnesAreBounded) {
  const Program program = open(1'000, 1);
  ASSERT_TRUE(service_.start());
  char byte = 0;
  for (std::uint32_t sequence = 1; sequence <= abi::kInvalidationsMax; ++sequence) {
    take_away(program, kMuchBase, Mirror::kPage, sequence);
    ASSERT_EQ(::recv(program.channels.invalidate.get(), &byte, 1, 0), 1) << sequence;
  }
  EXPECT_FALSE(program.mirror->closed());
  take_away(program, kMuchBase, Mirror::kPage, abi::kInvalidationsMax + 1);
  EXPECT_EQ(::recv(program.channels.invalidate.get(), &byte, 1, 0), 0);
  EXPECT_TRUE(program.mirror->closed());
}

// What waits for a helper that hangs is bounded by what the program may have open: a program that
// ends what it wasn't answered breaks its channel.
TEST_F(InvalidationTurns, NoneIsEndedBeforeItsAnswer) {
  const Program program = open(1'000, 1, own_memory());
  test::HeldUp copy(*program.mirror->program());
  ASSERT_TRUE(service_.start());
  take_away(program, kMuchBase, Mirror::kPage);
  end(program, 1);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!program.mirror->closed() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(program.mirror->closed());
  copy.release();
}

TEST_F(InvalidationTurns, OneThatWaitedForACopyIsEndedAfterItsAnswer) {
  const Program program = open(1'000, 1, own_memory());
  test::HeldUp copy(*program.mirror->program());
  ASSERT_TRUE(service_.start());
  take_away(program, kMuchBase, Mirror::kPage);
  copy.release();
  EXPECT_NE(answered(program), 0U);
  end(program, 1);
  take_away(program, kMuchBase, Mirror::kPage);
  EXPECT_NE(answered(program), 0U);
  EXPECT_FALSE(program.mirror->closed());
}

}  // namespace
}  // namespace uroce::control
