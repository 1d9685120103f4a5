#pragma once

// A descriptor that is readable when addresses or links of kernel interfaces may have changed
// (rtnetlink; needs no privilege).

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::control {

class KernelWatch {
 public:
  enum class Of : std::uint8_t { kAddresses, kLinksAndAddresses };

  // Watches all interfaces.
  static Result<KernelWatch> open(Of what);

  // Readable: something has changed.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  void drain();

 private:
  explicit KernelWatch(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace uroce::control
