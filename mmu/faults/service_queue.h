#pragma once

// A queue of records from workers to a serving thread and back: a fixed number of records,
// allocated at the start, in lock-free queues. A worker that finds none left parks its role
// nevertheless, and retries when one is returned.
//
// A Record has `request`, identifies the role that waits for it (WaitingRole), and releases what it
// holds in release().

#include <algorithm>
#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/event_fd.h"

namespace uroce {

template <typename Record, std::uint32_t kCapacity>
class ServiceQueue {
 public:
  static constexpr std::uint32_t kRecords = kCapacity;
  using Request = decltype(Record::request);

  explicit ServiceQueue(std::uint32_t workers) {
    for (Record& record : records_) {
      UROCE_CHECK(free_.push(&record));
    }
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      resumed_.push_back(std::make_unique<Resumed>());
    }
  }
  ServiceQueue(const ServiceQueue&) = delete;
  ServiceQueue& operator=(const ServiceQueue&) = delete;

  // Every queue below has room for all records, so no push fails.

  // Unused records, more or less while others take some.
  [[nodiscard]] std::uint32_t left() const {
    return kRecords - std::min(used_.load(std::memory_order_relaxed), kRecords);
  }
  // Workers. nullptr when all records are in use.
  Record* take(const Request& request) {
    Record* record = nullptr;
    if (!free_.pop(record)) {
      return nullptr;
    }
    used_.fetch_add(1, std::memory_order_relaxed);
    record->request = request;
    return record;
  }
  // Wakes the serving thread.
  void raise(Record* record) {
    UROCE_CHECK(raised_.push(record));
    if (asleep_.exchange(false, std::memory_order_acq_rel)) {
      event_.ring();
    }
  }
  Record* next_resumed(std::uint32_t worker) {
    Record* record = nullptr;
    return resumed_[worker]->pop(record) ? record : nullptr;
  }
  [[nodiscard]] bool has_resumed(std::uint32_t worker) const {
    return resumed_[worker]->read_available() != 0;
  }
  void give_back(Record* record) {
    *record = Record{};
    used_.fetch_sub(1, std::memory_order_relaxed);
    UROCE_CHECK(free_.push(record));
  }

  // The serving thread. resume() returns a record to the worker that raised it, and wakes that
  // worker.
  Record* next() {
    Record* record = nullptr;
    return raised_.pop(record) ? record : nullptr;
  }
  [[nodiscard]] bool empty() const { return raised_.empty(); }
  void resume(Record* record) {
    const std::uint32_t worker = record->worker;
    record->release();
    UROCE_CHECK(resumed_[worker]->push(record));
    if (wake_worker) {
      wake_worker(worker);
    }
  }

  // Before sleeping, the serving thread announces it, checks once more, and waits for descriptor()
  // to become readable.
  void fall_asleep() { asleep_.exchange(true, std::memory_order_seq_cst); }
  void wake_up() {
    asleep_.store(false, std::memory_order_relaxed);
    event_.clear();
  }
  void ring() { event_.ring(); }  // any thread
  [[nodiscard]] int descriptor() const { return event_.get(); }

  // Wakes a worker after something was returned to it. Set before the first record is raised.
  std::function<void(std::uint32_t worker)> wake_worker;

 private:
  using Queue = boost::lockfree::queue<Record*, boost::lockfree::capacity<kRecords + 1>>;
  using Resumed = boost::lockfree::spsc_queue<Record*, boost::lockfree::capacity<kRecords>>;

  std::vector<Record> records_{kRecords};
  std::atomic<std::uint32_t> used_{0};  // relaxed: a bound
  Queue free_;
  Queue raised_;
  std::vector<std::unique_ptr<Resumed>> resumed_;  // index: worker; produced by the serving thread
  // Set by the serving thread before its last look at raised_, read by a modification after
  // something was raised: one of the two sees the other (as engine/wakeup.h).
  std::atomic<bool> asleep_{false};
  EventFd event_;
};

}  // namespace uroce
