#pragma once

// The throughput of several workers side by side: two cards, joined in memory queue by queue, each
// with so many workers; for each pair of workers, a thread and a pair of queue pairs that they own.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/link_port.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::bench {

// One end of a lane: a worker, and the program behind it.
class LaneEnd {
 public:
  LaneEnd(test::Endpoint& end, const Worker::Config& config, const char* address);
  ~LaneEnd();

  Worker& worker() { return worker_; }
  void poll();
  void ring() { abi::ring(bells_, 0); }

 private:
  test::Endpoint& end_;
  std::uint32_t index_;
  Quiescence& quiescence_;
  Worker worker_;
  abi::Doorbells bells_{};
  SessionDoorbells session_;
};

class WorkerLanes {
 public:
  explicit WorkerLanes(std::uint32_t workers);
  ~WorkerLanes();

  // RC WRITEs of `length` bytes over all lanes at once, for about `round` of each thread's CPU
  // time. Returns the sum over the threads of messages per second of their own time. So other
  // processes on the machine don't count, but what the workers do to each other does.
  double run(std::uint32_t length, Duration round);

 private:
  // One card's objects, which its workers share.
  struct Card {
    explicit Card(std::uint32_t workers)
        : quiescence(workers), keys(quiescence), paging(workers, {}) {}
    Quiescence quiescence;
    KeyTable keys;
    PagingQueues paging;
    std::unique_ptr<Port> port;
  };
  struct Lane;

  Card a_, b_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace uroce::bench
