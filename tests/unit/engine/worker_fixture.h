#pragma once

// Two ends, each a queue pair with its program and a worker, joined in memory; the test controls
// time.

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/engine/worker.h"
#include "dataplane/port/link_port.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {

// A worker with the doorbells of one program.
struct Station {
  Station(const Worker::Config& config, const char* address) : worker(config) {
    worker.set_addresses(0, {parse_ip(address).value()});
    session.bells = bells.get();
    worker.add_session(session);
  }
  std::uint32_t add(Qp& qp) {
    worker.add_qp(qp);
    session.slots.push_back(&qp);
    return static_cast<std::uint32_t>(session.slots.size() - 1);
  }
  void ring(std::uint32_t slot = 0) { abi::ring(*bells, slot); }

  Worker worker;
  std::unique_ptr<abi::Doorbells> bells = std::make_unique<abi::Doorbells>();
  SessionDoorbells session;
};

struct Stations {
  // `paging`: where b's queue pairs raise faults and flushes, and `paging_of_a` a's. `read_usage`
  // and `clock`: b's.
  explicit Stations(const PairConfig& config = {}, const LinkConfig& link = {},
                    PagingQueues* paging = nullptr, PagingQueues* paging_of_a = nullptr,
                    Stalls::UsageReader read_usage = Stalls::thread_usage,
                    Time (*clock)() = nullptr)
      : pair(config),
        ports(make_link(link)),
        a({.ports = {ports.first.get()}, .keys = &pair.a.keys(), .paging = paging_of_a},
          "10.0.0.1"),
        b({.ports = {ports.second.get()},
           .keys = &pair.b.keys(),
           .paging = paging,
           .read_usage = read_usage,
           .clock = clock},
          "10.0.0.2") {
    a.add(pair.a.qp());
    b.add(pair.b.qp());
  }

  // The program closed its session.
  void session_gone() { a.worker.remove_session(a.session); }

  // Polls both workers until neither has anything to do.
  void settle() {
    for (bool busy = true; busy;) {
      busy = a.worker.poll(now);
      busy |= b.worker.poll(now);
    }
  }

  // Settles repeatedly until done() is true, which helpers' threads bring about.
  template <typename Done>
  void settle_until(Done&& done) {
    for (settle(); !done(); settle()) {
      std::this_thread::yield();
      now += kNanosecondsPerMicrosecond;
    }
  }

  void post_write(std::uint64_t id, std::size_t length, std::size_t offset = 0) {
    const abi::Sge sge = pair.a.sge(offset, length);
    pair.a.post_send(rdma_wr(id, abi::WrOpcode::kRdmaWrite, pair.b, offset), {&sge, 1});
    a.ring();
  }

  QpPair pair;
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports;
  Station a;
  Station b;
  Time now = 1'000'000;
};

}  // namespace uroce::test
