#pragma once

// What most tests of control start from: a card with one loopback device (or two of any kind), an
// engine whose workers run in the calling thread, and the services for conversations, which get
// records without a socket.

#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "abi/version.h"
#include "control/commands/conversation.h"
#include "control/commands/services.h"
#include "control/sessions/card.h"
#include "control/sessions/card_limits.h"
#include "dataplane/port/loopback_port.h"

namespace uroce::control {

// A record of `command` with a body that starts with a RequestHeader.
template <typename Body>
Record make_record(abi::Command command, Body body, std::uint32_t sequence = 1) {
  abi::RequestHeader header;
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

// A port on a link without any other station.
class SilentPort : public Port {
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
  // A second port is a device whose address is 10.0.1.1/24.
  Rig(std::unique_ptr<Port> port, std::uint32_t workers, std::unique_ptr<Port> second = nullptr)
      : port_(std::move(port)),
        second_(std::move(second)),
        keys_(quiescence_, 1024, 1),
        engine_(engine_config(workers), ports(), keys_, quiescence_),
        card(engine_, keys_, status_, 7),
        connections(connection_host(card), 10) {
    (void)std::signal(SIGPIPE,
                      SIG_IGN);  // as in the daemon: tests may not read the pipes of channels
    card.set_clock([this] { return now; });
    card.add_device(0, *port_, {*parse_prefix("10.0.0.1/24"), *parse_prefix("fd00::1/64")}, {});
    if (second_ != nullptr) {
      card.add_device(1, *second_, {*parse_prefix("10.0.1.1/24")}, {});
    }
  }

  Time now = 1'000'000;
  [[nodiscard]] Quiescence& quiescence() { return quiescence_; }

 private:
  std::vector<Port*> ports() {
    return second_ == nullptr ? std::vector{port_.get()} : std::vector{port_.get(), second_.get()};
  }
  Engine::Config engine_config(std::uint32_t workers) {
    status_ = std::move(*SealedMemory::create("test-status", workers * kStatusStride));
    Engine::Config config;
    config.workers = workers;
    return config;
  }

  std::unique_ptr<Port> port_, second_;
  SealedMemory status_;
  Quiescence quiescence_;
  KeyTable keys_;
  Engine engine_;

 public:
  Card card;
  KernelAddresses kernel;
  ErrorLog errors;
  cm_user::Service connections;
  Services services{.card = card, .connections = connections, .kernel = kernel, .errors = errors};
};

}  // namespace uroce::control
