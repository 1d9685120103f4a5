#pragma once

// --port shm,path=FILE: connects two daemons of one machine, each of which reads the other's
// memory. Queue pairs build frames in memory that the other daemon has mapped, and the other's
// worker reads them there: the port copies nothing, and as no byte can change between the two ends,
// frames have no ICRC (Frame::icrc_left_out). Needs no privileges, EAL or huge pages.
//
// A separate thread of the port finds the other daemon, and detects when it is gone. Workers use
// the current link under a lock per queue, which is held for a burst and contended only by that
// thread.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/event_fd.h"
#include "base/spin_lock.h"
#include "dataplane/port/make_port.h"
#include "dataplane/port/port.h"
#include "dataplane/port/queue_counters.h"
#include "dataplane/port/shm/shm_link.h"
#include "dataplane/port/shm/shm_rendezvous.h"

namespace uroce {

class ShmPort final : public Port {
 public:
  // Buffers for received frames: all that may wait in a worker (Worker::kOutOfOrderTotalMax,
  // Worker::kParkedTotalMax), and some to receive with.
  static constexpr std::uint32_t kReceivedPerQueue = 3'072;
  // Maximum of ended connections whose frames are still held; new connections wait for these. In
  // addition each worker that has nothing to send may have empty frames of one in stock.
  static constexpr std::size_t kEndedMax = 8;

  // `spec`: see shm_spec.h. Errors are sentences for the user.
  static Result<std::unique_ptr<Port>> open(const std::string& spec, const PortOptions& options);
  // REQUIRES: all frames were released.
  ~ShmPort() override;

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max, Time now) override;
  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time now) override;
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override;
  void release(Frame** frames, std::uint32_t count) override;
  [[nodiscard]] std::uint32_t generation() const override {
    return generation_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] PortCounters counters() const override;
  [[nodiscard]] int wait_descriptor(std::uint16_t queue) const override;
  bool arm_wait(std::uint16_t queue) override;
  void disarm_wait(std::uint16_t queue) override;

 private:
  struct Queue {
    SpinLock lock;
    ShmLink* link = nullptr;  // guarded by the lock
    EventFd wakeup;           // wakes its worker; never read, since epoll is edge-triggered
    QueueCounters counters;
  };
  ShmPort(std::string spec, std::string path, const PortOptions& options);
  bool move_over(Frame** frame, const ShmLink* link);
  void run();
  Status join(int connection);
  void part();
  void renew_link();
  bool make_link();
  void destroy_ended();
  void set_trouble(std::string trouble);

  std::string spec_;
  std::uint32_t mtu_;
  EtherAddress mac_;
  std::vector<std::unique_ptr<Queue>> queues_;
  mutable SpinLock lock_;  // guards the following up to received_
  std::unique_ptr<ShmLink> link_;
  std::vector<std::unique_ptr<ShmLink>> ended_;
  ShmPool received_;
  std::unique_ptr<std::byte[]> received_memory_;
  std::atomic<std::uint32_t> generation_{0};  // number of links so far; written under lock_

  mutable std::mutex trouble_mutex_;
  std::string trouble_;  // why no other daemon is connected; empty if connected
  std::atomic<bool> joined_{false};
  ShmRendezvous rendezvous_;
  EventFd stop_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace uroce
