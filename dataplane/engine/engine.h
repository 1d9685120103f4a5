#pragma once

// The engine: worker lcores, the ports they poll, and the two ways to reach them from other
// threads: call() runs a task on a worker between two turns; the slow path carries frames that
// aren't RoCE (ARP, neighbour discovery, ICMP) and events to control.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/turn.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"

namespace uroce {

enum class IdlePolicy : std::uint8_t { kPoll, kAdaptive };

// What a worker tells control; drained with Engine::next_notice when notice_descriptor() is
// readable.
struct Notice {
  enum class Kind : std::uint8_t { kFrame, kAsyncEvent } kind = Kind::kFrame;
  std::uint16_t port = 0;                   // kFrame
  std::vector<std::byte> bytes{};           // kFrame: the whole Ethernet frame
  AsyncEvent event = AsyncEvent::kQpFatal;  // kAsyncEvent
  std::uint32_t object = 0;                 // kAsyncEvent: handle of the QP, CQ or SRQ
};

class Engine {
 public:
  static constexpr std::uint32_t kNoticesMax =
      1024;  // waiting for control; more are dropped and counted

  struct Config {
    std::uint32_t workers = 1;
    IdlePolicy idle = IdlePolicy::kAdaptive;
    // One a worker, in memory that programs map read-only; it outlives the engine. Empty: nobody
    // looks, and the engine uses memory of its own.
    std::vector<abi::WorkerStatus*> status{};
  };

  // Ports, key table and quiescence outlive the engine.
  Engine(const Config& config, std::vector<Port*> ports, const KeyTable& keys,
         Quiescence& quiescence);
  ~Engine();

  // Starts the workers, on EAL lcores if the EAL runs (rte_eal_remote_launch), else on threads of
  // its own.
  Status start();
  void stop();

  [[nodiscard]] std::uint32_t workers() const;

  // Runs `task` on a worker between two turns and returns when it has run; wakes a sleeping one.
  // Before start() and after stop() it runs in the caller. Any thread but a worker.
  void call(std::uint32_t worker, const std::function<void(Worker&)>& task);

  // The worker that owns a queue pair with this number.
  [[nodiscard]] std::uint32_t owner_of(std::uint32_t qpn) const { return qpn % workers(); }

  [[nodiscard]] int notice_descriptor() const;  // eventfd
  bool next_notice(Notice* notice);

  // Sends a frame that control built (ARP and the like). False when the queue to the worker is
  // full.
  bool send_frame(std::uint16_t port, std::span<const std::byte> frame);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace uroce
