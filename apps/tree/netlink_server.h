#pragma once

// Where programs' netlink questions arrive: a UNIX socket in the tree's folder, which only its
// owner may use, since answers tell of the programs that he may look at. A connection has one
// question; its answer comes datagram by datagram, and then the end.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

class NetlinkServer {
 public:
  using Answer = std::function<std::vector<std::string>(std::string_view question)>;

  static constexpr int kSlowAnswersMax = 16;  // what more programs leave unread breaks off

  static Result<NetlinkServer> listen(const std::string& path);
  [[nodiscard]] int descriptor() const { return listener_.get(); }
  // Answers whoever has come. A program that doesn't ask is left after a second; one that doesn't
  // take its answer is waited for by a thread, so that nobody else waits.
  void serve(const Answer& answer);

 private:
  explicit NetlinkServer(UniqueFd listener) : listener_(std::move(listener)) {}
  UniqueFd listener_;
};

}  // namespace uroce
