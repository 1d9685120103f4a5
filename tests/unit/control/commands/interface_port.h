#pragma once

// A port on an interface that a test takes away and brings back.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tests/unit/control/rig.h"

namespace uroce::control {

// How often the card's workers were told that a port is another one, all together.
inline std::uint64_t port_changes(Card& card) {
  std::uint64_t changes = 0;
  const std::function<void(Worker&)> count = [&](Worker& worker) {
    changes += worker.port_changes();
  };
  for (std::uint32_t i = 0; i < card.engine().workers(); ++i) {
    card.engine().call(i, count);
  }
  return changes;
}

class InterfacePort final : public SilentPort {
 public:
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = SilentPort::info();
    info.on_interface = true;
    info.trouble = trouble;
    info.link_up = trouble.empty() && attached;
    info.mac = mac;
    return info;
  }
  bool detach() override {
    const bool was_attached = std::exchange(attached, false);
    detached += was_attached ? 1 : 0;
    return was_attached;
  }
  Result<bool> attach() override {
    before_attach();
    if (!present) {
      return Error{ENETDOWN, "the interface isn't there"};
    }
    if (attached) {
      return false;
    }
    trouble = std::exchange(next_trouble, {});
    attached = true;
    return true;
  }

  EtherAddress mac = kMac;
  std::string trouble;
  std::string next_trouble;  // what befalls the interface as soon as it is attached
  bool attached = true;
  bool present = true;  // attach() succeeds
  int detached = 0;
  std::function<void()> before_attach = [] {};
};

}  // namespace uroce::control
