#include "apps/capture/recorder.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/time/monotonic_clock.h"

namespace uroce::capture {
namespace {

constexpr int kPollMilliseconds = 5;
constexpr std::size_t kReadsMax = 16'384;  // records between two looks at the clock

// What has to be added to the workers' times, which count from the machine's start.
Time since_1970() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<Time>(now.tv_sec) * kNanosecondsPerSecond + static_cast<Time>(now.tv_nsec) -
         monotonic_now();
}

}  // namespace

Recorder::Recorder(const Options& options, CaptureFilter wanted, RecordSource& source,
                   PcapngWriter& writer)
    : options_(options),
      wanted_(std::move(wanted)),
      source_(source),
      writer_(writer),
      offset_(since_1970()) {
  if (options.on_error != 0) {
    around_.emplace(options.on_error);
  }
}

bool Recorder::is_over(Time now, Time begun) const {
  return (options_.seconds > 0 && now - begun > static_cast<Time>(options_.seconds * 1e9)) ||
         written_ >= options_.count ||
         (around_ && around_->failures() >= options_.errors && around_->is_complete());
}

// Whether there may be more.
bool Recorder::read_some(Time now) {
  const std::size_t count = source_.read(kReadsMax, [this](Record record) {
    newest_ = std::max(newest_, record.head.time);
    pending_.add(std::move(record));
  });
  write_out(now, false);
  return count == kReadsMax;
}

bool Recorder::run(int signals) {
  const Time begun = monotonic_now();
  bool more = false;
  for (;;) {
    // Where traffic fills the rings as fast as they are read, nothing is waited for, but each turn
    // looks at what may end it.
    pollfd waiting{.fd = signals, .events = POLLIN, .revents = 0};
    const bool told = ::poll(&waiting, 1, more ? 0 : kPollMilliseconds) > 0 || source_.gone();
    const Time now = monotonic_now();
    const bool over = told || is_over(now, begun);
    more = read_some(now);
    // What came before the end is still there, and what comes after it isn't wanted.
    while (over && more && newest_ <= now && written_ < options_.count) {
      more = read_some(now);
    }
    write_out(now, over);
    if (!writer_.flush()) {
      return false;
    }
    if (over || written_ >= options_.count) {
      return true;
    }
  }
}

void Recorder::write_out(Time now, bool all) {
  pending_.release(now, all, [this, now](const Record& record) { take(record, now); });
  if (around_) {
    around_->release(
        now, all, [this](const Record& record, const auto& failures) { write(record, failures); });
  }
}

void Recorder::take(const Record& record, Time now) {
  if (record.head.kind == abi::CaptureKind::kFailed) {
    take_failure(record, now);
  } else if (!is_wanted(record, wanted_)) {
    return;
  } else if (around_) {
    around_->add(record, [this](const Record& one, const auto& failures) { write(one, failures); });
  } else {
    write(record, {});
  }
}

// With --peer, that queue pair's packets say who its peer is.
void Recorder::take_failure(const Record& record, Time now) {
  const auto sentence = around_ ? failed_completion(record) : std::nullopt;
  if (!sentence || around_->failures() >= options_.errors ||
      (wanted_.port && *wanted_.port != record.head.port) ||
      (wanted_.qpn && *wanted_.qpn != record.head.qpn) ||
      (wanted_.peer && !around_->knows(record.head.qpn))) {
    return;
  }
  if (!options_.quiet) {
    std::fprintf(stderr, "uroce capture: %s\n", sentence->c_str());
  }
  around_->fail(record.head.qpn, *sentence, now);
}

void Recorder::write(const Record& record, const std::vector<std::string>& failures) {
  if (written_ >= options_.count) {
    return;
  }
  std::vector<std::string> comments = failures;
  comments.push_back(comment_of(record));
  writer_.add({.interface = record.head.port,
               .time_ns = record.head.time + offset_,
               .bytes = record.bytes,
               .frame_length = record.head.frame_length,
               .outbound = record.head.kind == abi::CaptureKind::kSent,
               .comments = std::move(comments)});
  ++written_;
}

}  // namespace uroce::capture
