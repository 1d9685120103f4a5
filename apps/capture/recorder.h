#pragma once

// The loop of `uroce capture`: takes records from the daemon's rings, and writes those that are
// wanted.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "abi/capture_records.h"
#include "apps/capture/daemon_rings.h"
#include "apps/capture/error_window.h"
#include "apps/capture/pcapng_writer.h"
#include "apps/capture/pending.h"
#include "apps/capture/record.h"

namespace uroce::capture {

struct Options {
  std::string out, device, peer;
  std::uint64_t ring = 100'000'000;
  std::uint32_t snap = abi::kCaptureSnapMax;
  std::optional<std::uint32_t> qpn;
  std::uint64_t count = UINT64_MAX;
  double seconds = 0;
  std::size_t on_error = 0;  // packets before and after; 0: all are wanted
  std::uint32_t errors = 16;
  bool drops = false, quiet = false, json = false;
};

class Recorder {
 public:
  Recorder(const Options& options, CaptureFilter wanted, RecordSource& source,
           PcapngWriter& writer);

  // Until a signal (`signals` becomes readable), the count, the time, so many errors, or the
  // daemon's end. False: the file can't be written.
  bool run(int signals);

  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] std::uint64_t failures() const { return around_ ? around_->failures() : 0; }
  [[nodiscard]] Time offset() const { return offset_; }

 private:
  [[nodiscard]] bool is_over(Time now, Time begun) const;
  bool read_some(Time now);
  void write_out(Time now, bool all);
  void take(const Record& record, Time now);
  void take_failure(const Record& record, Time now);
  void write(const Record& record, const std::vector<std::string>& failures);

  const Options& options_;
  const CaptureFilter wanted_;
  RecordSource& source_;
  PcapngWriter& writer_;
  Pending pending_;
  std::optional<ErrorWindow> around_;
  std::uint64_t written_ = 0;
  Time newest_ = 0;    // of the records that were read
  const Time offset_;  // from the workers' times to those since 1970
};

}  // namespace uroce::capture
