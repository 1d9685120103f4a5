// What ends a capture while traffic goes on.

#include "apps/capture/recorder.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/event_fd.h"
#include "base/time/monotonic_clock.h"

namespace uroce::capture {
namespace {

// A source whose records don't end within any test.
class Flood final : public RecordSource {
 public:
  std::size_t read(std::size_t max, const std::function<void(Record)>& take) override {
    if (++reads > kReadsMax) {
      return 0;
    }
    for (std::size_t i = 0; i < max; ++i) {
      Record record;
      record.head.kind = abi::CaptureKind::kSent;
      record.head.time = monotonic_now();
      take(std::move(record));
    }
    return max;
  }
  [[nodiscard]] bool gone() const override { return reads > kReadsMax; }

  static constexpr int kReadsMax = 400;
  int reads = 0;
};

struct Capture {
  Capture() {
    auto opened = PcapngWriter::open("/dev/null", "test");
    UROCE_CHECK(static_cast<bool>(opened));
    writer.emplace(std::move(*opened));
    writer->add_interface("uroce0", 128);
  }
  // Returns the number of packets written.
  std::uint64_t run() {
    Recorder recorder(options, CaptureFilter{}, flood, *writer);
    EXPECT_TRUE(recorder.run(signal.get()));
    EXPECT_LT(flood.reads, Flood::kReadsMax) << "it didn't end while there was traffic";
    return recorder.written();
  }

  Options options;
  EventFd signal;
  Flood flood;
  std::optional<PcapngWriter> writer;
};

TEST(Recorder, ASignalEndsItWhileTrafficGoesOn) {
  Capture capture;
  capture.signal.ring();
  EXPECT_GT(capture.run(), 0U) << "earlier packets are written";
}

TEST(Recorder, TheTimeEndsItWhileTrafficGoesOn) {
  Capture capture;
  capture.options.seconds = 0.01;
  EXPECT_GT(capture.run(), 0U);
}

TEST(Recorder, TheCountEndsItWhileTrafficGoesOn) {
  Capture capture;
  capture.options.count = 1'000;
  EXPECT_EQ(capture.run(), 1'000U);
}

}  // namespace
}  // namespace uroce::capture
