#pragma once

// The report shown by `uroce cm`: listeners, connections and the protocol's counters. Made in
// pieces, since there may be 65,536 of each.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/cm/events.h"

namespace uroce::control::cm_user {

class Service;
class User;

class Report {
 public:
  // Contains objects of those users for whom `visible` returns true; its argument is nullptr for
  // connections whose program is gone.
  Report(const Service& service, std::function<bool(const User*)> visible);

  // The next part of the JSON text, after visiting at most `entries` listeners or connections; may
  // be empty. Those that end meanwhile are left out. REQUIRES: !done()
  std::string next(std::size_t entries);
  [[nodiscard]] bool done() const { return part_ == Part::kEnd; }
  // The size of its state.
  [[nodiscard]] std::size_t bytes() const;

 private:
  enum class Part : std::uint8_t { kHead, kListeners, kConnections, kTail, kEnd };

  const Service& service_;
  std::function<bool(const User*)> visible_;
  Part part_ = Part::kHead;
  std::vector<std::uint64_t> listeners_;  // serials of ids, in reverse order
  std::vector<cm::ConnectionId> connections_;
  bool first_ = true;  // the next entry is the first of its array
};

}  // namespace uroce::control::cm_user
