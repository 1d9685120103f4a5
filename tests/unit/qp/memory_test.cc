#include "dataplane/qp/memory/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/unique_fd.h"
#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kRegionIova = 0x10000;

class MemoryTest : public testing::Test {
 protected:
  std::uint32_t add(std::span<std::byte> memory, std::uint64_t iova, std::uint32_t access) {
    return rig_.add_region(memory, iova, access);
  }
  MemoryScope scope() { return {.keys = rig_.keys, .pd = QpRig::kPd}; }

  // The bytes that a READ response with this payload would carry.
  template <typename Fill>
  Access payload_of(std::uint32_t length, Bytes* payload, Fill&& fill) {
    Bytes buffer(4608);
    Frame frame;
    frame.data = buffer.data();
    frame.capacity = static_cast<std::uint32_t>(buffer.size());
    Headers headers;
    headers.opcode = Opcode::kRcSendOnly;
    FrameWriter writer(frame, FrameTemplate(local_path()), headers, length, 1);
    const Access access = fill(writer);
    if (access == Access::kGranted) {
      writer.finish();
      EXPECT_EQ(parse(frame), Drop::kNone);
      payload->assign(frame.packet.payload, frame.packet.payload + frame.packet.payload_length);
    }
    return access;
  }

  QpRig rig_;
  Bytes a_ = pattern(1, 4096);
  Bytes b_ = pattern(2, 4096);
};

TEST_F(MemoryTest, GathersAcrossAList) {
  const std::uint32_t key_a = add(a_, kRegionIova, 0);
  const std::uint32_t key_b = add(b_, 2 * kRegionIova, 0);
  const std::array<abi::Sge, 4> sges{{{kRegionIova + 5, 10, key_a},
                                      {0, 0, 0xBAD},
                                      {2 * kRegionIova + 100, 700, key_b},
                                      {kRegionIova + 1000, 2000, key_a}}};
  EXPECT_EQ(total_length(sges), 2710U);
  Bytes whole(a_.begin() + 5, a_.begin() + 15);
  whole.insert(whole.end(), b_.begin() + 100, b_.begin() + 800);
  whole.insert(whole.end(), a_.begin() + 1000, a_.begin() + 3000);
  for (const std::uint32_t offset : {0U, 3U, 10U, 11U, 709U, 710U, 1500U}) {
    for (const std::uint32_t length : {0U, 1U, 10U, 256U, 1024U}) {
      Bytes payload;
      ASSERT_EQ(payload_of(length, &payload,
                           [&](FrameWriter& writer) {
                             return gather(scope(), sges, offset, length, writer);
                           }),
                Access::kGranted);
      EXPECT_EQ(payload, Bytes(whole.begin() + offset, whole.begin() + offset + length));
    }
  }
}

TEST_F(MemoryTest, ScatterNeedsLocalWrite) {
  const std::uint32_t key = add(a_, kRegionIova, 0);
  const std::array<abi::Sge, 1> sges{{{kRegionIova, 100, key}}};
  EXPECT_EQ(scatter(scope(), sges, 0, b_.data(), 100), Access::kNoRight);
}

TEST_F(MemoryTest, ScattersToEachSge) {
  const std::uint32_t key = add(a_, kRegionIova, kAccessLocalWrite);
  const std::array<abi::Sge, 2> sges{{{kRegionIova + 10, 5, key}, {kRegionIova + 100, 50, key}}};
  const Bytes before = a_;
  ASSERT_EQ(scatter(scope(), sges, 3, b_.data(), 12), Access::kGranted);
  Bytes expected = before;
  std::copy_n(b_.begin(), 2, expected.begin() + 13);
  std::copy_n(b_.begin() + 2, 10, expected.begin() + 100);
  EXPECT_EQ(a_, expected);
}

TEST_F(MemoryTest, RegionOfSeveralPieces) {
  Region::Config config;
  config.pd = QpRig::kPd;
  config.access = kAccessRemoteRead | kAccessRemoteWrite | kAccessRemoteAtomic;
  config.iova = kRegionIova;
  config.length = 8192;
  config.pieces = {{.start = 0, .length = 4096, .host = b_.data(), .remote_address = 0},
                   {.start = 4096, .length = 4096, .host = a_.data(), .remote_address = 0}};
  const std::uint32_t key = rig_.keys.add(std::make_unique<Region>(std::move(config))).value();
  Bytes payload;
  ASSERT_EQ(payload_of(1000, &payload,
                       [&](FrameWriter& writer) {
                         return read_remote(
                             scope(), {.rkey = key, .address = kRegionIova + 3596, .length = 1000},
                             writer);
                       }),
            Access::kGranted);
  Bytes expected(b_.begin() + 3596, b_.end());
  expected.insert(expected.end(), a_.begin(), a_.begin() + 500);
  EXPECT_EQ(payload, expected);
  const Bytes news = pattern(9, 1000);
  ASSERT_EQ(write_remote(scope(), {.rkey = key, .address = kRegionIova + 3596, .length = 1000},
                         news.data()),
            Access::kGranted);
  EXPECT_EQ(std::memcmp(a_.data(), news.data() + 500, 500), 0);
}

// Memory that the daemon hasn't mapped is accessed through /proc/PID/mem; here the program is this
// process itself.
TEST_F(MemoryTest, FallsBackToSystemCalls) {
  Region::Config config;
  config.pd = QpRig::kPd;
  config.access = kAccessRemoteRead | kAccessRemoteWrite | kAccessLocalWrite;
  config.iova = kRegionIova;
  config.length = a_.size();
  const UniqueFd self(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  config.remote = self.get();
  config.pieces = {{.start = 0,
                    .length = a_.size(),
                    .host = nullptr,
                    .remote_address = reinterpret_cast<std::uint64_t>(a_.data())}};
  const std::uint32_t key = rig_.keys.add(std::make_unique<Region>(std::move(config))).value();
  Bytes payload;
  ASSERT_EQ(payload_of(1001, &payload,
                       [&](FrameWriter& writer) {
                         return read_remote(
                             scope(), {.rkey = key, .address = kRegionIova + 7, .length = 1001},
                             writer);
                       }),
            Access::kGranted);
  EXPECT_EQ(payload, Bytes(a_.begin() + 7, a_.begin() + 1008));
  const std::array<abi::Sge, 1> sges{{{kRegionIova, 100, key}}};
  ASSERT_EQ(scatter(scope(), sges, 0, b_.data(), 100), Access::kGranted);
  EXPECT_EQ(std::memcmp(a_.data(), b_.data(), 100), 0);
}

// A file that was truncated while mapped.
TEST_F(MemoryTest, LostMemoryIsReportedAndHarmless) {
  const int file = memfd_create("lost", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 8192), 0);
  void* mapped = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::uint32_t key =
      add({static_cast<std::byte*>(mapped), 8192}, kRegionIova,
          kAccessLocalWrite | kAccessRemoteRead | kAccessRemoteWrite | kAccessRemoteAtomic);
  ASSERT_EQ(ftruncate(file, 0), 0);
  const RemoteRange range{.rkey = key, .address = kRegionIova, .length = 1000};
  Bytes payload;
  EXPECT_EQ(payload_of(1000, &payload,
                       [&](FrameWriter& writer) { return read_remote(scope(), range, writer); }),
            Access::kLost);
  EXPECT_EQ(write_remote(scope(), range, a_.data()), Access::kLost);
  const abi::Sge sge{.address = kRegionIova, .length = 1000, .lkey = key};
  EXPECT_EQ(payload_of(1000, &payload,
                       [&](FrameWriter& writer) {
                         return gather(scope(), {&sge, 1}, 0, 1000, writer);
                       }),
            Access::kLost);
  EXPECT_EQ(scatter(scope(), {&sge, 1}, 0, a_.data(), 1000), Access::kLost);
  std::uint64_t original = 0;
  EXPECT_EQ(
      fetch_add_remote(scope(), {.rkey = key, .address = kRegionIova, .length = 8}, 1, &original),
      Access::kLost);
  munmap(mapped, 8192);
  close(file);
}

TEST_F(MemoryTest, AtomicOnMemoryThatIsNotAlignedIsRefused) {
  const std::uint32_t key =
      add({a_.data() + 1, 64}, kRegionIova, kAccessRemoteAtomic | kAccessRemoteRead);
  const Bytes before = a_;
  std::uint64_t original = 0;
  EXPECT_EQ(compare_swap_remote(scope(), {.rkey = key, .address = kRegionIova, .length = 8}, 0, 1,
                                &original),
            Access::kLost);
  EXPECT_EQ(a_, before);
}

}  // namespace
}  // namespace uroce::test
