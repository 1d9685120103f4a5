#include "tests/sim/node.h"

namespace uroce::sim {

End::End(const QueuesConfig& queues_config, QpConfig qp_config)
    : queues(queues_config), qp((queues.attach(&qp_config), qp_config)) {}

Node::Node(std::unique_ptr<Port> inner, const Faults& faults, const std::string& address,
           std::size_t memory_bytes, std::uint64_t paging_seed, Recovery recovery, bool direct)
    : arena(memory_bytes),
      port(std::move(inner), faults),
      gid_(parse_ip(address).value()),
      keys_(quiescence_, 64, faults.seed),
      bells_(std::make_unique<abi::Doorbells>()) {
  Region::Config region;
  region.pd = kPd;
  region.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic |
                  kAccessFlushGlobal;
  region.iova = arena.address(0);
  region.length = memory_bytes;
  if (paging_seed != 0) {
    paging = std::make_unique<Paging>(arena, quiescence_, paging_seed);
    region.mirror = paging->mirror();
    region.program_address = arena.address(0);
    if (paging->implicit()) {
      region.iova = region.program_address = 0;
      region.length = ~std::uint64_t{0};
    }
  } else {
    region.pieces = {{.start = 0,
                      .length = memory_bytes,
                      .host = arena.memory.data(),
                      .remote_address = arena.address(0)}};
  }
  key = keys_.add(std::make_unique<Region>(std::move(region))).value();

  Worker::Config config;
  config.ports = {&port};
  config.keys = &keys_;
  config.recovery = recovery;
  config.direct = direct;
  config.paging = paging == nullptr ? nullptr : &paging->queues();
  worker = std::make_unique<Worker>(config);
  worker->set_addresses(0, {gid_});
  session_.bells = bells_.get();
  worker->add_session(session_);
}

Node::~Node() {
  worker->remove_session(session_);
  for (End& end : ends_) {
    worker->remove_qp(end.qp);
  }
  worker.reset();
}

void Node::add_address(std::uint32_t handle, const Path& path) {
  (void)addresses_.put(handle,
                       std::make_unique<AddressVector>(AddressVector{kPd, FrameTemplate(path)}));
}

End& Node::add_end(std::uint32_t qpn, const QueuesConfig& queues, bool signal_all, QpType type) {
  QpConfig config;
  config.type = type;
  config.addresses = &addresses_;
  config.qpn = qpn;
  config.pd = kPd;
  config.doorbell_slot = static_cast<std::uint32_t>(session_.slots.size());
  config.signal_all = signal_all;
  config.congestion = congestion_;
  config.shares_network = shares_network_;
  End& end = ends_.emplace_back(queues, config);
  session_.slots.push_back(&end.qp);
  worker->add_qp(end.qp);
  return end;
}

void Node::modify(End& end, const QpAttributes& attributes, std::uint32_t mask, Time now) {
  worker->set_time(now);
  worker->modify_qp(end.qp, attributes, mask);
}

void Node::ring(End& end) { abi::ring(*bells_, end.qp.config().doorbell_slot); }

Path Node::path_to(const Node& other) const {
  Path path;
  path.source_mac = port.info().mac;
  path.destination_mac = other.port.info().mac;
  path.source_gid = gid_;
  path.destination_gid = other.gid_;
  return path;
}

void connect(Node& a, End& a_end, QpAttributes of_a, Node& b, End& b_end, QpAttributes of_b,
             Time now) {
  of_a.dest_qpn = b_end.qp.config().qpn;
  of_a.path = a.path_to(b);
  of_b.dest_qpn = a_end.qp.config().qpn;
  of_b.path = b.path_to(a);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    of_a.state = of_b.state = state;
    a.modify(a_end, of_a, ~0U, now);
    b.modify(b_end, of_b, ~0U, now);
  }
}

}  // namespace uroce::sim
