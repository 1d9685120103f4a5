#include "apps/capture/pending.h"

#include <utility>

namespace uroce::capture {

void Pending::add(Record record) {
  if (record.head.kind == abi::CaptureKind::kLateDrop) {
    const auto found = by_serial_.find(record.head.serial);
    if (found != by_serial_.end() && found->second >= first_) {
      records_[found->second - first_].dropped = record.head.why;
    }
    return;
  }
  if (record.head.kind == abi::CaptureKind::kDropped) {
    record.dropped = record.head.why;
  }
  if (record.head.serial != 0) {
    by_serial_[record.head.serial] = first_ + records_.size();
  }
  records_.push_back(std::move(record));
}

void Pending::release(Time now, bool all, const std::function<void(const Record&)>& take) {
  while (!records_.empty() &&
         (all || records_.size() > kMax || records_.front().head.time + kHeld <= now)) {
    take(records_.front());
    by_serial_.erase(records_.front().head.serial);
    records_.pop_front();
    ++first_;
  }
}

}  // namespace uroce::capture
