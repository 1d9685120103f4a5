#pragma once

// An event channel that the program's epoll instance watches, of a daemon that dies.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>

#include "base/unique_fd.h"
#include "tests/unit/shim/cm/cm_device_fixture.h"

namespace uroce::test {

inline constexpr std::uint32_t kRemoval = 11;  // RDMA_CM_EVENT_DEVICE_REMOVAL
inline constexpr rdma_ucm_migrate_resp kNoEvents{};

class RemovalCmDevice : public CmDevice {
 protected:
  void SetUp() override {
    CmDevice::SetUp();
    program.reset(epoll_create1(EPOLL_CLOEXEC));
    epoll_event interest{.events = EPOLLIN, .data = {.fd = channel}};
    ASSERT_EQ(epoll_ctl(program.get(), EPOLL_CTL_ADD, channel, &interest), 0);
  }

  void set_nonblocking() { ASSERT_EQ(fcntl(channel, F_SETFL, O_NONBLOCK), 0); }
  // By the registration that was made at the beginning, and by poll.
  [[nodiscard]] bool has_events() const {
    epoll_event happened{};
    const bool by_epoll = epoll_wait(program.get(), &happened, 1, 0) == 1;
    EXPECT_EQ(readable(), by_epoll);
    return by_epoll;
  }
  // The uid of the id that is reported as removed; 0: there is another event, or none.
  std::uint64_t removed() {
    return get_event() && got_event().event == kRemoval && got_event().status == ENODEV
               ? got_event().uid
               : 0;
  }
  bool move_here(std::uint32_t id, int from) {
    rdma_ucm_migrate_id body{};
    body.id = id;
    body.fd = static_cast<std::uint32_t>(from);
    rdma_ucm_migrate_resp response{};
    return command(RDMA_USER_CM_CMD_MIGRATE_ID, body, &response);
  }
  // GET_EVENT finds nothing.
  bool is_empty() { return !get_event() && errno == EAGAIN && !has_events(); }

  UniqueFd program;
};

}  // namespace uroce::test
