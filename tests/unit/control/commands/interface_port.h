#pragma once

// A port on an interface that a test takes away and brings back.

#include <string>
#include <utility>

#include "tests/unit/control/rig.h"

namespace uroce::control {

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
  void detach() override {
    attached = false;
    ++detached;
  }
  Status attach() override {
    if (!present) {
      return Error{ENETDOWN, "the interface isn't there"};
    }
    if (!attached) {
      trouble = std::exchange(next_trouble, {});
      attached = true;
    }
    return ok();
  }

  EtherAddress mac = kMac;
  std::string trouble;
  std::string next_trouble;  // what befalls the interface as soon as it is attached
  bool attached = true;
  bool present = true;  // attach() succeeds
  int detached = 0;
};

}  // namespace uroce::control
