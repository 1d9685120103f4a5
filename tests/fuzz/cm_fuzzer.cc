// MADs that anybody on the network may send, mixed with calls of programs: nothing crashes, what is
// sent is a valid message, and the tables stay within their bounds. The input is a script: each
// step is a byte for its kind, followed by that kind's operands.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "control/cm/manager.h"
#include "tests/fuzz/byte_source.h"

namespace uroce::control::cm {
namespace {

constexpr std::uint64_t kService = service_id(PortSpace::kTcp, 7);
constexpr std::uint32_t kBacklog = 8;
constexpr std::size_t kStepsMax = 256;

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "cm_fuzzer: %s\n", what);
    std::abort();
  }
}

class Subject {
 public:
  explicit Subject(test::ByteSource source) : source_(source) {
    route_.local = *parse_ip("10.0.0.1");
    route_.remote = *parse_ip("10.0.0.2");
    require(manager_.listen({.service_id = kService}, kBacklog, 1).has_value(), "can't listen");
  }

  void run() {
    for (std::size_t step = 0; step < kStepsMax && !source_.empty(); ++step) {
      act(source_.take<std::uint8_t>());
      drain();
    }
    for (const ConnectionId id : std::exchange(ids_, {})) {
      manager_.destroy(id, now_);
    }
    drain();
    for (int i = 0; i < 100 && manager_.next_deadline() != kNever; ++i) {
      manager_.on_time(manager_.next_deadline());
      drain();
    }
    require(manager_.connections().empty(), "connections are left");
  }

 private:
  ConnectionId any_id() {
    return ids_.empty() ? 0 : ids_[source_.below(static_cast<std::uint32_t>(ids_.size()))];
  }
  std::uint32_t id_on_the_wire() { return source_.flag() ? any_id() : source_.below(4); }

  // The bytes of a MAD; sometimes with a valid header and existing numbers, which random bytes
  // never hit.
  void receive(bool mended) {
    const auto bytes = source_.bytes(kMadBytes);
    Mad mad{};
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), mad.begin());
    if (mended) {
      const std::uint8_t header[] = {1, 7, 2, 3};
      std::copy_n(reinterpret_cast<const std::byte*>(header), 4, mad.begin());
      mad[16] = std::byte{0};
      mad[17] = static_cast<std::byte>(0x10 + source_.below(12));
      put(&mad, 24, id_on_the_wire());
      put(&mad, 28, id_on_the_wire());
      if (mad[17] == std::byte{0x10}) {
        put(&mad, 28, 0);
        put(&mad, 32, kService >> 32U);
        put(&mad, 36, kService & 0xFFFF'FFFF);
        mad[165] = std::byte{0x40};
      }
    }
    manager_.on_mad(route_, mended ? std::span(mad) : std::span(mad).first(bytes.size()), now_);
  }
  static void put(Mad* mad, std::size_t offset, std::uint64_t value) {
    for (std::size_t i = 0; i < 4; ++i) {
      (*mad)[offset + i] = static_cast<std::byte>(value >> (24 - 8 * i));
    }
  }

  void act(std::uint8_t kind) {
    switch (kind % 12) {
      case 0:
        return receive(false);
      case 1:
      case 2:
      case 3:
        return receive(true);
      case 4: {
        ConnectParameters wanted;
        wanted.route = route_;
        wanted.service_id = kService;
        wanted.qpn = 17 + source_.below(4);
        keep(manager_.connect(wanted, now_));
        return;
      }
      case 5: {
        AcceptParameters given;
        given.qpn = 17 + source_.below(4);
        return ignore(manager_.accept(any_id(), given, now_));
      }
      case 6:
        return ignore(manager_.ready(any_id(), {}, now_));
      case 7:
        return ignore(manager_.reject(any_id(), {}, now_));
      case 8:
        return ignore(manager_.disconnect(any_id(), {}, now_));
      case 9:
        return manager_.destroy(any_id(), now_);
      case 10: {
        ServiceParameters wanted;
        wanted.route = route_;
        wanted.service_id = kService;
        keep(manager_.resolve_service(wanted, now_));
        return;
      }
      default:
        now_ += static_cast<Duration>(source_.take<std::uint32_t>()) * 4096;
        return manager_.on_time(now_);
    }
  }
  static void ignore(const Status&) {}
  void keep(const Result<ConnectionId>& id) {
    if (id) {
      ids_.push_back(*id);
    }
  }

  void drain() {
    while (const auto outgoing = manager_.next_send()) {
      MadFault fault{};
      require(parse_mad(outgoing->mad, &fault).has_value(), "what is sent isn't a message");
    }
    while (const auto event = manager_.next_event()) {
      if (event->kind == EventKind::kRequest || event->kind == EventKind::kServiceRequest) {
        ids_.push_back(event->connection);
      }
      require(manager_.state(event->connection).has_value(), "an event of a stranger");
    }
    require(manager_.listeners().front().waiting <= kBacklog, "the backlog is too long");
  }

  test::ByteSource source_;
  Manager manager_{1};
  Route route_;
  Time now_ = 1;
  std::vector<ConnectionId> ids_;
};

}  // namespace
}  // namespace uroce::control::cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::control::cm;
  Subject({data, size}).run();
  return 0;
}
