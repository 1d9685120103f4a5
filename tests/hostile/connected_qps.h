#pragma once

// Queue pairs in RTR to a peer that doesn't know of them: further objects of a victim.

#include <infiniband/verbs.h>

#include <vector>

#include "tests/bench/parts/card.h"

namespace uroce::hostile {

class ConnectedQps {
 public:
  // To an IPv4 address. A failure ends the program.
  ConnectedQps(const bench::BenchCard& card, int count, const char* address);
  ~ConnectedQps();
  ConnectedQps(const ConnectedQps&) = delete;
  ConnectedQps& operator=(const ConnectedQps&) = delete;

 private:
  void add(const bench::BenchCard& card, const ibv_gid& peer);

  ibv_cq* cq_;
  std::vector<ibv_qp*> qps_;
};

}  // namespace uroce::hostile
