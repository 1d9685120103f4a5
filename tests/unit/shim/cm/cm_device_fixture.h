#pragma once

// An event channel at a fake daemon, and the commands that librdmacm writes to it.

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {

class CmDevice : public testing::Test {
 protected:
  static constexpr std::uint64_t kUid = 0x1234'5678'9ABC;

  void SetUp() override { ASSERT_GE(channel = shim::open_cm_channel(), 0); }
  void TearDown() override { EXPECT_EQ(shim::close_cm_channel(channel), 0); }

  // The event is written to `event`. True, or false with errno.
  bool get_event() {
    struct {
      rdma_ucm_cmd_hdr header;
      rdma_ucm_get_event body;
    } command{};
    command.header = {.cmd = RDMA_USER_CM_CMD_GET_EVENT,
                      .in = sizeof(command.body),
                      .out = static_cast<std::uint16_t>(event.size())};
    command.body.response = reinterpret_cast<std::uintptr_t>(event.data());
    return shim::write_cm_command(channel, &command, sizeof(command)) == sizeof(command);
  }
  // The event that was got last.
  [[nodiscard]] rdma_ucm_event_resp got_event() const {
    rdma_ucm_event_resp got{};
    std::memcpy(&got, event.data(), sizeof(got));
    return got;
  }
  static bool is_readable(int descriptor) {
    pollfd one{.fd = descriptor, .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
  }
  [[nodiscard]] bool readable() const { return is_readable(channel); }

  // A command with a response is written. True, or false with errno.
  template <typename Body, typename Response>
  bool command(std::uint32_t number, Body body, Response* response) {
    body.response = reinterpret_cast<std::uintptr_t>(response);
    return command_without_response(number, body, sizeof(Response));
  }
  template <typename Body>
  bool command_without_response(std::uint32_t number, Body body, std::uint16_t out = 0) {
    struct {
      rdma_ucm_cmd_hdr header;
      Body body;
    } command{{number, sizeof(Body), out}, body};
    return shim::write_cm_command(channel, &command, sizeof(command)) == sizeof(command);
  }

  // What the daemon `by` answers from now on.
  static void answer(FakeDaemon& by, const void* output = nullptr, std::size_t length = 0,
                     std::uint32_t event_id = 0, std::uint32_t event_membership = 0) {
    abi::CmCommandReply reply{};
    reply.leaving = 1;
    reply.event_id = event_id;
    reply.event_membership = event_membership;
    reply.output_length = static_cast<std::uint32_t>(length);
    if (length != 0) {
      std::memcpy(reply.output, output, length);
    }
    by.announce_to_librdmacm(reply);
  }

  // Makes what is the daemon's `handle`, and returns the program's handle of it.
  template <typename Body>
  std::uint32_t create(std::uint32_t number, Body body, std::uint32_t handle, FakeDaemon& by) {
    answer(by, &handle, sizeof(handle));
    body.uid = kUid + handle;
    rdma_ucm_create_id_resp response{};
    EXPECT_TRUE(command(number, body, &response));
    return response.id;
  }
  std::uint32_t create_id(std::uint32_t handle, FakeDaemon& by) {
    return create(RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{}, handle, by);
  }
  std::uint32_t create_id(std::uint32_t handle) { return create_id(handle, daemon); }
  std::uint32_t create_membership(std::uint32_t id, std::uint32_t handle) {
    rdma_ucm_join_mcast body{};
    body.id = id;
    return create(RDMA_USER_CM_CMD_JOIN_MCAST, body, handle, daemon);
  }
  bool bind(std::uint32_t id) {
    rdma_ucm_bind body{};
    body.id = id;
    return command_without_response(RDMA_USER_CM_CMD_BIND, body);
  }
  std::uint32_t create_bound_id(std::uint32_t handle, FakeDaemon& by) {
    const std::uint32_t id = create_id(handle, by);
    answer(by);
    EXPECT_TRUE(bind(id));
    return id;
  }
  std::uint32_t create_bound_id(std::uint32_t handle) { return create_bound_id(handle, daemon); }

  // Gets an event that counts for the daemon's id `counted` and names another.
  void fetch(std::uint32_t counted, std::uint32_t named, std::uint32_t membership = 0) {
    rdma_ucm_event_resp record{};
    record.id = named;
    answer(daemon, &record, sizeof(record), counted + 1, membership);
    EXPECT_TRUE(get_event());
  }
  // The number of events that the program is to have acknowledged. -1 and errno: it fails.
  int destroy(std::uint32_t number, std::uint32_t handle) {
    rdma_ucm_destroy_id body{};
    body.id = handle;
    rdma_ucm_destroy_id_resp response{};
    return command(number, body, &response) ? static_cast<int>(response.events_reported) : -1;
  }
  int destroy_id(std::uint32_t id) { return destroy(RDMA_USER_CM_CMD_DESTROY_ID, id); }

  FakeDaemon daemon;
  int channel = -1;
  std::array<std::uint8_t, 4 * abi::kCmOutputMax> event{};
};

}  // namespace uroce::test
