#pragma once

// Queue pairs that are members of a multicast group, and workers that own them.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "apps/replay/queues.h"
#include "dataplane/engine/worker_state.h"
#include "dataplane/port/link_port.h"
#include "dataplane/port/loopback_port.h"
#include "dataplane/wire/build.h"
#include "mmu/proc_mem/proc_mem_thread.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {

inline constexpr std::uint32_t kQkey = 0x1111'1111;
inline const Gid kGroup = *parse_ip("239.1.2.3");
inline const Gid kOurs = *parse_ip("10.0.0.2");

// A UD queue pair with its program.
class Member : public Queues {
 public:
  // `program`: its memory, if that is reached the slow way; nullptr: it is mapped.
  Member(std::uint32_t qpn, KeyTable& keys, const AddressTable& addresses,
         std::shared_ptr<ProcMemThread> program, std::uint64_t user = 0)
      : Queues({}) {
    Region::Config region;
    region.pd = 1;
    region.access = kAccessLocalWrite;
    region.iova = 0x1000;
    region.length = memory.size();
    region.program_address = reinterpret_cast<std::uint64_t>(memory.data());
    region.pieces = {{.start = 0,
                      .length = memory.size(),
                      .host = program != nullptr ? nullptr : memory.data(),
                      .remote_address = region.program_address}};
    region.program = std::move(program);
    key = keys.add(std::make_unique<Region>(std::move(region))).value();
    QpConfig config;
    config.qpn = qpn;
    config.type = QpType::kUd;
    config.pd = 1;
    config.addresses = &addresses;
    config.user = user;
    attach(&config);
    qp = std::make_unique<Qp>(config);
    for (int i = 0; i < 8; ++i) {
      post_recv(1, std::array{abi::Sge{0x1000, 256, key}});
    }
  }
  void start(Worker& worker) const {
    worker.add_qp(*qp);
    QpAttributes attributes;
    attributes.qkey = kQkey;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      worker.modify_qp(*qp, attributes, kQpMaskState | kQpMaskQkey | kQpMaskSqPsn);
    }
  }
  std::uint32_t received() {
    std::uint32_t count = 0;
    while (const auto cqe = poll_recv()) {
      EXPECT_EQ(cqe->sl, abi::kSlRoceIpv4) << "UCX reads the network header type from it";
      ++count;
    }
    return count;
  }

  std::vector<std::byte> memory = std::vector<std::byte>(4'096);
  std::uint32_t key = 0;
  std::unique_ptr<Qp> qp;
};

class Multicast : public testing::Test {
 protected:
  void given(std::uint32_t workers, bool loopback = false) {
    ports_ = make_link({.queues = static_cast<std::uint16_t>(workers)});
    if (loopback) {
      ports_.second = std::make_unique<LoopbackPort>(1'500, 1);
    }
    std::vector<Worker*> peers;
    for (std::uint32_t i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<Worker>(Worker::Config{.index = i,
                                                                 .workers = workers,
                                                                 .ports = {ports_.second.get()},
                                                                 .keys = &keys_,
                                                                 .paging = &paging_}));
      workers_.back()->set_addresses(0, {kOurs});
      peers.push_back(workers_.back().get());
    }
    for (auto& worker : workers_) {
      worker->set_peers(peers);
    }
  }
  Member& member(std::uint32_t qpn, bool attached = true,
                 std::shared_ptr<ProcMemThread> program = nullptr) {
    members_.push_back(std::make_unique<Member>(qpn, keys_, addresses_, std::move(program)));
    members_.back()->start(*workers_[qpn % workers_.size()]);
    if (attached) {
      for (auto& worker : workers_) {
        worker->attach(0, kGroup, qpn);
      }
    }
    return *members_.back();
  }
  void receive(const char* group, std::uint32_t qpn = kMulticastQpn, std::uint16_t vlan = 0) {
    arrive(group, qpn, vlan);
    settle();
  }
  void arrive(const char* group, std::uint32_t qpn = kMulticastQpn, std::uint16_t vlan = 0) {
    Path path;
    path.vlan = vlan;
    path.source_gid = *parse_ip("10.0.0.1");
    path.destination_gid = *parse_ip(group);
    path.destination_mac = {{0x01, 0, 0x5E, 1, 2, 3}};
    Frame* frame = nullptr;
    ASSERT_EQ(ports_.first->allocate(&frame, 1), 1U);
    const Headers headers{.opcode = Opcode::kUdSendOnly,
                          .dest_qpn = qpn,
                          .deth = {.qkey = kQkey, .source_qpn = 0x77}};
    const Bytes payload = pattern(5, 32);
    FrameWriter writer(*frame, FrameTemplate(path), headers, 32, 1);
    writer.append(payload.data(), payload.size());
    writer.finish();
    ASSERT_EQ(ports_.first->tx_burst(0, &frame, 1, 0), 1U);
  }
  void receive_with_the_last_buffer() {
    std::vector<Frame*> taken;
    for (Frame* frame = nullptr; ports_.first->allocate(&frame, 1) == 1;) {
      taken.push_back(frame);
    }
    ports_.first->release(&taken.back(), 1);
    taken.pop_back();
    receive("239.1.2.3");
    ports_.first->release(taken.data(), static_cast<std::uint32_t>(taken.size()));
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (auto& worker : workers_) {
        busy |= worker->poll(1);
      }
    }
  }
  void given_address(std::uint32_t ah, const Gid& destination) {
    Path path;
    path.source_gid = kOurs;
    path.destination_gid = destination;
    path.destination_mac = {{0x01, 0, 0x5E, 1, 2, 3}};
    (void)addresses_.put(ah,
                         std::make_unique<AddressVector>(AddressVector{1, FrameTemplate(path)}));
  }
  static void post_to(Member& sender, std::uint32_t ah) {
    abi::SendWr wr = send_wr(5, abi::WrOpcode::kSend);
    wr.ud = {.ah = ah, .remote_qpn = kMulticastQpn, .remote_qkey = kQkey, .reserved = 0};
    sender.post_send(wr, std::array{abi::Sge{0x1000, 64, sender.key}});
  }
  void send(Member& sender, const Gid& group) {
    given_address(0, group);
    post_to(sender, 0);
    const auto bells = std::make_unique<abi::Doorbells>();
    SessionDoorbells session{
        .bells = bells.get(), .wake_descriptor = -1, .slots = {sender.qp.get()}};
    workers_[0]->add_session(session);
    abi::ring(*bells, 0);
    settle();
    workers_[0]->remove_session(session);
  }
  std::uint32_t on_the_wire() {
    std::array<Frame*, 8> frames{};
    const std::uint32_t count = ports_.first->rx_burst(0, frames.data(), frames.size(), 1);
    ports_.first->release(frames.data(), count);
    return count;
  }
  // Two users send the same number of datagrams. Those of one are for a group with members here, so
  // that user waits, after a burst, while the other one sends.
  void expect_sender_charged() {
    constexpr std::uint32_t kDatagrams = kTurnBurst + 8;
    for (std::uint32_t i = 0; i < 20; ++i) {
      member(100 + i);
    }
    Member to_group(17, keys_, addresses_, nullptr, 1'000);
    Member to_one(18, keys_, addresses_, nullptr, 1'001);
    given_address(0, kGroup);
    given_address(1, *parse_ip("239.1.2.4"));
    const auto sent = [](const Member& of) { return of.qp->counters().requests_sent; };
    for (Member* sender : {&to_group, &to_one}) {
      sender->start(*workers_[0]);
      for (std::uint32_t i = 0; i < kDatagrams; ++i) {
        post_to(*sender, sender == &to_group ? 0 : 1);
      }
    }
    const auto bells = std::make_unique<abi::Doorbells>();
    SessionDoorbells session{.bells = bells.get(), .slots = {to_group.qp.get(), to_one.qp.get()}};
    workers_[0]->add_session(session);
    abi::ring(*bells, 0);
    abi::ring(*bells, 1);
    workers_[0]->poll(1);
    EXPECT_EQ(sent(to_group), kTurnBurst);
    workers_[0]->poll(1);
    EXPECT_EQ(sent(to_group), kTurnBurst);
    EXPECT_EQ(sent(to_one), kTurnBurst);
    settle();
    EXPECT_EQ(sent(to_group), kDatagrams);
    EXPECT_EQ(sent(to_one), kDatagrams);
    workers_[0]->remove_session(session);
    workers_[0]->remove_qp(*to_group.qp);
    workers_[0]->remove_qp(*to_one.qp);
  }
  std::uint64_t drops(Drop reason) {
    std::uint64_t sum = 0;
    for (auto& worker : workers_) {
      note_drops(worker->counters().drops);
      sum += worker->counters().drops[reason];
    }
    return sum;
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 1'024, 1};
  AddressTable addresses_;
  PagingQueues paging_{2, {}};
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace uroce::test
