#pragma once

// What `uroce cm` shows: who listens where, which connections there are, and what the protocol
// counted. In pieces, since there may be 65,536 of each.

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
  // Shows what belongs to users for whom `visible` says so; nullptr: to nobody any more.
  Report(const Service& service, std::function<bool(const User*)> visible);

  // The next part of the JSON text, which looks at so many listeners or connections at most; may be
  // empty. What goes meanwhile isn't in it. REQUIRES: !done()
  std::string next(std::size_t entries);
  [[nodiscard]] bool done() const { return part_ == Part::kEnd; }
  // Of what it remembers.
  [[nodiscard]] std::size_t bytes() const;

 private:
  enum class Part : std::uint8_t { kHead, kListeners, kConnections, kTail, kEnd };

  const Service& service_;
  std::function<bool(const User*)> visible_;
  Part part_ = Part::kHead;
  std::vector<std::uint64_t> listeners_;  // serials of ids, the last one first
  std::vector<cm::ConnectionId> connections_;
  bool first_ = true;  // of its array
};

}  // namespace uroce::control::cm_user
