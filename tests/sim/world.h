#pragma once

// A simulation: two nodes on a link with faults, several connections, random work in both
// directions of each, all from one seed and in virtual time.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/port/link_port.h"
#include "tests/sim/flow.h"
#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace uroce::sim {

// Where the two ends of the connections are.
enum class Topology : std::uint8_t {
  kTwoNodes,
  kOneNode,        // all within one
  kOneNodeDirect,  // and without frames where possible
};

struct Outcome {
  std::string wrong{};  // empty: no error
  std::uint64_t frames = 0;
  std::uint64_t requests = 0;
  std::uint64_t explicit_nodes = 0, implicit_nodes = 0;  // with memory paged on demand
  std::uint64_t page_faults = 0;
  FaultCounts faults{};       // as counted by the pagers
  std::uint64_t at_once = 0;  // pages that workers mapped themselves
  std::uint64_t invalidations = 0;
  std::uint64_t overtaken = 0;   // of programs, by invalidations
  std::uint64_t broken = 0;      // directions of connections that failed, as intended
  std::uint64_t marked = 0;      // frames, by a bottleneck
  std::uint64_t overflowed = 0;  // frames that found its queue full
  RoceCounters transport{};      // of all queue pairs

  void add(const Outcome& more);  // its numbers
};

class World {
 public:
  explicit World(std::uint64_t seed, Topology topology = Topology::kTwoNodes);

  // Runs to the end: all work done, or an error.
  Outcome run();

  // For worlds on one node, after run(): compares the programs' completions and the contents of
  // their memory, as far as they don't depend on time. Empty, or the difference.
  [[nodiscard]] std::string compare(const World& other) const;

 private:
  void connect(std::uint32_t index, FlowConfig of_a, FlowConfig of_b);
  [[nodiscard]] FlowConfig random_flow();
  void make_nodes(std::size_t bytes, const LinkConfig& link, std::uint64_t seed);
  [[nodiscard]] bool turn();
  [[nodiscard]] std::string check();
  [[nodiscard]] std::string check_end();
  [[nodiscard]] std::string stuck() const;

  Random random_;
  std::uint32_t mtu_;
  Faults faults_;
  std::uint32_t connections_;
  bool mishaps_;
  Time now_ = 0;
  Topology topology_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Node* a_ = nullptr;
  Node* b_ = nullptr;       // the same one, or another
  SharedCounter shared_a_;  // in a's memory
  SharedCounter shared_b_;
  std::deque<Flow> flows_;
};

}  // namespace uroce::sim
