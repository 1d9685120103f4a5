// The worker's writer and the reader, over the same memory.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "apps/capture/daemon_rings.h"
#include "dataplane/engine/turn/capture.h"

namespace uroce::capture {
namespace {

constexpr std::size_t kRing = 4'096;

struct Memory {
  alignas(64) std::byte bytes[abi::kCaptureRingOffset + kRing]{};
  [[nodiscard]] abi::CaptureControl& control() {
    return *reinterpret_cast<abi::CaptureControl*>(bytes);
  }
};

struct Sample {
  explicit Sample(std::size_t length, std::uint8_t fill = 1)
      : bytes(length, static_cast<std::byte>(fill)) {
    frame.data = bytes.data();
    frame.length = static_cast<std::uint32_t>(length);
  }
  std::vector<std::byte> bytes;
  Frame frame;
};

TEST(CaptureRing, ReaderGetsWhatWasWritten) {
  Memory memory;
  CaptureWriter writer(memory.bytes, 100);
  RingReader reader(memory.bytes);
  EXPECT_FALSE(reader.next());
  Sample sample(300, 7);
  sample.frame.sent_for = {.work_request = 99, .qpn = 17, .cause = SentFor::Cause::kSelective};
  writer.sent(sample.frame, 1, 1'234);
  const auto sent = reader.next();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->head.kind, abi::CaptureKind::kSent);
  EXPECT_EQ(sent->head.work_request, 99U);
  EXPECT_EQ(sent->head.qpn, 17U);
  EXPECT_EQ(sent->head.time, 1'234U);
  EXPECT_EQ(sent->head.frame_length, 300U);
  EXPECT_EQ(sent->bytes, std::vector<std::byte>(100, std::byte{7})) << "cut at the snap length";
  writer.received(sample.frame, 0, 5, 2'000);
  sample.frame.capture_serial = 5;
  writer.dropped(sample.frame, 3, 3'000);
  EXPECT_EQ(reader.next()->head.kind, abi::CaptureKind::kReceived);
  const auto fate = reader.next();
  EXPECT_EQ(fate->head.kind, abi::CaptureKind::kLateDrop);
  EXPECT_EQ(fate->head.serial, 5U);
  EXPECT_TRUE(fate->bytes.empty());
  sample.frame.capture_serial = 0;
  writer.dropped(sample.frame, 3, 3'000);
  EXPECT_EQ(reader.next()->head.kind, abi::CaptureKind::kDropped);
  EXPECT_FALSE(reader.next());
}

// Even if packets are cut shorter than the details of a failure.
TEST(CaptureRing, FailuresAreNotCut) {
  Memory memory;
  CaptureWriter writer(memory.bytes, 8);
  RingReader reader(memory.bytes);
  FailureReport report;
  report.failure = Failure::kRetriesExhausted;
  report.status = abi::WcStatus::kRetryExcErr;
  report.qpn = 17;
  report.wr_id = 99;
  report.limit = 7;
  writer.failed(report, 1, 1'234);
  const auto record = reader.next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->head.kind, abi::CaptureKind::kFailed);
  EXPECT_EQ(record->head.port, 1U);
  const auto sentence = failed_completion(*record);
  ASSERT_TRUE(sentence);
  EXPECT_NE(sentence->find("QP 17: RDMA WRITE with wr_id 0x63 failed with transport retry"),
            std::string::npos)
      << *sentence;
  EXPECT_NE(sentence->find("the limit is 7"), std::string::npos) << *sentence;
}

TEST(CaptureRing, CountsWhatDoesNotFit) {
  Memory memory;
  CaptureWriter writer(memory.bytes, 2'000);
  RingReader reader(memory.bytes);
  Sample sample(1'000);
  for (int i = 0; i < 10; ++i) {
    writer.received(sample.frame, 0, 1, 0);
  }
  EXPECT_EQ(reader.missed(), 7U);  // three records of 1,040 bytes fit
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(reader.next());
  }
  EXPECT_FALSE(reader.next());
  writer.received(sample.frame, 0, 1, 0);
  EXPECT_TRUE(reader.next());
}

// The reader is a program: whatever it writes there, the worker stays within the ring.
TEST(CaptureRing, AHostileReaderHarmsNobodyElse) {
  std::mt19937_64 random(3);
  struct {
    Memory memory;
    std::byte behind[256]{};
  } place;
  CaptureWriter writer(place.memory.bytes, 2'000);
  for (int i = 0; i < 10'000; ++i) {
    Sample sample(random() % 2'000);
    place.memory.control().tail.store(random() >> (random() % 64));
    place.memory.control().head.store(random());
    writer.received(sample.frame, 0, 1, 0);
  }
  for (const std::byte byte : place.behind) {
    ASSERT_EQ(byte, std::byte{0});
  }
}

TEST(CaptureRing, AnInvalidWriterEndsTheReading) {
  Memory memory;
  RingReader reader(memory.bytes);
  abi::CaptureRecord record{};
  record.length = 48;
  record.kept_length = 4'000'000'000;
  std::memcpy(memory.bytes + abi::kCaptureRingOffset, &record, sizeof(record));
  memory.control().head.store(48);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST(CaptureRing, WriterAndReaderInParallel) {
  Memory memory;
  CaptureWriter writer(memory.bytes, 2'000);
  constexpr std::uint32_t kFrames = 20'000;
  std::thread worker([&] {
    for (std::uint32_t i = 1; i <= kFrames; ++i) {
      Sample sample(i % 1'000, static_cast<std::uint8_t>(i));
      writer.received(sample.frame, 0, i, i);
    }
  });
  RingReader reader(memory.bytes);
  std::uint32_t read = 0, last = 0;
  const auto take = [&] {
    const auto record = reader.next();
    if (record) {
      ++read;
      EXPECT_GT(record->head.serial, last);
      last = record->head.serial;
      EXPECT_EQ(record->bytes,
                std::vector<std::byte>(last % 1'000, static_cast<std::byte>(last & 0xFFU)));
    }
    return record.has_value();
  };
  while (last != kFrames && read + reader.missed() < kFrames) {
    take();
  }
  worker.join();
  while (take()) {
  }
  EXPECT_EQ(read + reader.missed(), kFrames);
}

}  // namespace
}  // namespace uroce::capture
