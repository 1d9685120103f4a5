#pragma once

// What most tests of control start from: a card with one loopback device and an engine whose
// workers run in the caller, and sessions that are fed records without a socket.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "control/card.h"
#include "control/card_limits.h"
#include "control/commands.h"
#include "control/session.h"
#include "dataplane/port/loopback_port.h"

namespace uroce::control {

// A record of `command` with a body that starts with a RequestHeader.
template <typename Body>
Record make_record(Command command, Body body, std::uint32_t sequence = 1) {
  RequestHeader header;
  header.version = abi::kVersion;
  header.command = command;
  header.sequence = sequence;
  header.length = sizeof(Body);
  std::memcpy(static_cast<void*>(&body), &header, sizeof(header));
  Record record;
  record.bytes.resize(sizeof(Body));
  std::memcpy(record.bytes.data(), &body, sizeof(Body));
  return record;
}

struct Answer {
  ReplyHeader header{};
  Record record;

  [[nodiscard]] std::string message() const { return header.message; }
  template <typename Body>
  [[nodiscard]] Body as() const {
    Body body{};
    EXPECT_GE(record.bytes.size(), sizeof(Body));
    std::memcpy(static_cast<void*>(&body), record.bytes.data(),
                std::min(sizeof(Body), record.bytes.size()));
    return body;
  }
};

// A port of a link on which nobody ever says anything.
class SilentPort final : public Port {
 public:
  static constexpr EtherAddress kMac{{2, 0, 0, 0, 0, 1}};
  std::uint32_t rx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t tx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t allocate(Frame**, std::uint32_t) override { return 0; }
  void release(Frame**, std::uint32_t) override {}
  [[nodiscard]] PortInfo info() const override {
    PortInfo info;
    info.mac = kMac;
    return info;
  }
  [[nodiscard]] PortCounters counters() const override { return {}; }
};

class Rig {
 public:
  explicit Rig(std::uint32_t workers = 2)
      : Rig(std::make_unique<LoopbackPort>(4200, static_cast<std::uint16_t>(workers)), workers) {}
  Rig(std::unique_ptr<Port> port, std::uint32_t workers)
      : port_(std::move(port)),
        keys_(quiescence_, 1024, 1),
        engine_(engine_config(workers), {port_.get()}, keys_, quiescence_),
        card(engine_, keys_, status_, 7) {
    card.clock = [this] { return now; };
    card.add_device(0, *port_, {*parse_prefix("10.0.0.1/24"), *parse_prefix("fd00::1/64")}, {});
  }

  Time now = 1'000'000;

 private:
  Engine::Config engine_config(std::uint32_t workers) {
    status_ = std::move(*SharedMemory::create("test-status", workers * kStatusStride));
    Engine::Config config;
    config.workers = workers;
    return config;
  }

  std::unique_ptr<Port> port_;
  SharedMemory status_;
  Quiescence quiescence_;
  KeyTable keys_;
  Engine engine_;

 public:
  Card card;
};

// A program without a socket.
class Program {
 public:
  explicit Program(Card& card) : session(card, next_id()++, Peer{::getpid(), ::getuid(), 0}) {}

  template <typename Body>
  Answer ask(Command command, const Body& body) {
    return send(make_record(command, body, ++sequence_));
  }
  Answer ask(Command command) { return ask(command, RequestHeader{}); }
  Answer ask_about(Command command, std::uint32_t handle) {
    return ask(command, HandleRequest{{}, handle, 0});
  }
  Answer send(Record record) {
    session.receive(std::move(record));
    return take();
  }
  // The oldest reply; error -1 if there is none.
  Answer take() {
    Answer answer;
    answer.header.error = -1;
    if (!session.outbox().empty()) {
      answer.record = std::move(session.outbox().front());
      session.outbox().pop_front();
      std::memcpy(&answer.header, answer.record.bytes.data(), sizeof(answer.header));
    }
    return answer;
  }

  void open() { ASSERT_EQ(ask(Command::kOpenDevice, OpenDeviceRequest{}).header.error, 0); }
  std::uint32_t make_pd() { return ask(Command::kAllocPd).as<HandleReply>().handle; }
  std::uint32_t make_cq() {
    CreateCqRequest request{};
    request.entries = 16;
    request.cookie = 77;
    return ask(Command::kCreateCq, request).as<CreateCqReply>().handle;
  }
  CreateQpRequest rc_qp(std::uint32_t pd, std::uint32_t cq) {
    CreateQpRequest request{};
    request.type = static_cast<std::uint32_t>(QpType::kRc);
    request.pd = pd;
    request.send_cq = request.recv_cq = cq;
    request.max_send_wr = request.max_recv_wr = 8;
    request.max_send_sge = request.max_recv_sge = 2;
    request.cookie = 99;
    return request;
  }

  Session session;

 private:
  static std::uint64_t& next_id() {
    static std::uint64_t id = 1;
    return id;
  }
  std::uint32_t sequence_ = 0;
};

}  // namespace uroce::control
