#pragma once

// A program's socket, closed by a helper: descriptors that the program sent and that weren't
// received are closed with it, which can block for ever.

#include <memory>
#include <utility>

#include "base/unique_fd.h"
#include "control/foreign/helper_pool.h"
#include "shares/account.h"

namespace uroce::control {

class ForeignSocket {
 public:
  // Of a program of this user. `charge`: for the descriptor, unless it is charged elsewhere.
  ForeignSocket(UniqueFd socket, const User& user, std::shared_ptr<HelperPool> helpers,
                Charge charge = {})
      : charge_(std::move(charge)),
        socket_(std::move(socket)),
        user_(user),
        helpers_(std::move(helpers)) {}
  ~ForeignSocket();
  ForeignSocket(const ForeignSocket&) = delete;
  ForeignSocket& operator=(const ForeignSocket&) = delete;

  [[nodiscard]] int get() const { return socket_.get(); }

 private:
  Charge charge_;  // first, so that it is given back last
  UniqueFd socket_;
  User user_;
  std::shared_ptr<HelperPool> helpers_;
};

}  // namespace uroce::control
