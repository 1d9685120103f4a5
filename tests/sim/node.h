#pragma once

// One machine of the simulation: a worker with its port, registered memory, and the program's ends
// of queue pairs. Everything runs in the simulation's thread and time.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "apps/replay/queues.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/faults/faulty_port.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"
#include "tests/sim/arena.h"
#include "tests/sim/paging.h"

namespace uroce::sim {

inline constexpr PdId kPd = 3;

// A queue pair and the program's side of it.
struct End {
  End(const QueuesConfig& queues_config, QpConfig qp_config);
  Queues queues;
  Qp qp;
};

// Injects faults into all frames; queue pairs that need no frames can still transfer directly.
class SimPort final : public FaultyPort {
 public:
  using FaultyPort::FaultyPort;
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = FaultyPort::info();
    info.wants_frames = false;
    return info;
  }
};

class Node {
 public:
  // `paging_seed`: if not 0, memory is paged on demand, and the program keeps changing it.
  // `direct`: its queue pairs need no frames among themselves.
  Node(std::unique_ptr<Port> port, const Faults& faults, const std::string& address,
       std::size_t memory_bytes, std::uint64_t paging_seed = 0,
       Recovery recovery = Recovery::kSelective, bool direct = false);
  ~Node();

  // Makes a queue pair in RESET.
  End& add_end(std::uint32_t qpn, const QueuesConfig& queues, bool signal_all,
               QpType type = QpType::kRc);
  // An address handle for datagrams.
  void add_address(std::uint32_t handle, const Path& path);
  void modify(End& end, const QpAttributes& attributes, std::uint32_t mask, Time now);
  // Its region is all memory: no address is out of range, but not all are mapped.
  [[nodiscard]] bool has_all_memory() const { return paging != nullptr && paging->implicit(); }
  // The program rings the doorbell of this queue pair.
  void ring(End& end);

  [[nodiscard]] Path path_to(const Node& other) const;

  // For queue pairs made from here on.
  void share_network(const CongestionSettings& settings) {
    congestion_ = &settings;
    shares_network_ = true;
  }

  template <typename Visit>
  void for_each_qp(Visit visit) const {
    for (const End& end : ends_) {
      visit(end.qp);
    }
  }

  Arena arena;
  std::uint32_t key = 0;
  SimPort port;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Paging> paging;  // none: memory is pinned

 private:
  Gid gid_;
  const CongestionSettings* congestion_ = &kDefaultCongestion;
  bool shares_network_ = false;
  Quiescence quiescence_;
  KeyTable keys_;
  std::unique_ptr<abi::Doorbells> bells_;
  SessionDoorbells session_;
  AddressTable addresses_;
  std::deque<End> ends_;
};

// Brings two queue pairs to RTS as each other's peers, with these attributes otherwise.
void connect(Node& a, End& a_end, QpAttributes of_a, Node& b, End& b_end, QpAttributes of_b,
             Time now);

}  // namespace uroce::sim
