#pragma once

// A program's librdmacm from the daemon's point of view: commands of rdma/rdma_user_cm.h, and
// events.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <vector>

#include "abi/cm_records.h"
#include "abi/version.h"
#include "control/cm_user/deliver.h"
#include "tests/unit/control/program.h"

namespace uroce::control::cm_user {

inline constexpr std::uint16_t kPort = 7471;

struct CmAnswer {
  int error = 0;
  std::string message;
  std::vector<std::byte> output;

  template <typename Body>
  [[nodiscard]] Body as() const {
    Body body{};
    EXPECT_EQ(output.size(), sizeof(body));
    std::memcpy(&body, output.data(), std::min(sizeof(body), output.size()));
    return body;
  }
};

// A program's end of an event channel.
struct ProgramChannel {
  std::uint32_t handle = 0;
  UniqueFd pipe;

  [[nodiscard]] bool readable() const {
    pollfd entry{.fd = pipe.get(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  }
};

class CmProgram {
 public:
  explicit CmProgram(Rig& rig, uid_t uid = ::getuid()) : program(rig, uid) {}
  CmProgram(Rig& rig, const Peer& peer) : program(rig, peer) {}

  ProgramChannel open_channel() {
    Answer answer = program.ask(abi::Command::kCmOpenChannel);
    EXPECT_EQ(answer.header.error, 0);
    return {answer.as<abi::HandleReply>().handle, std::move(answer.record.descriptors.at(0))};
  }

  template <typename Body>
  CmAnswer command(const ProgramChannel& channel, std::uint32_t number, const Body& body,
                   std::span<const std::byte> option = {}, const ProgramChannel* other = nullptr) {
    abi::CmCommandRequest request{};
    request.header.version = abi::kVersion;
    request.header.command = abi::Command::kCmCommand;
    request.header.sequence = 1;
    request.header.length =
        static_cast<std::uint32_t>(sizeof(request) + sizeof(body) + option.size());
    request.channel = channel.handle;
    request.number = number;
    request.input_length = sizeof(body);
    request.option_length = static_cast<std::uint32_t>(option.size());
    request.other_channel = other != nullptr ? other->handle : 0;
    Record record;
    record.bytes.resize(request.header.length);
    std::memcpy(record.bytes.data(), &request, sizeof(request));
    std::memcpy(record.bytes.data() + sizeof(request), &body, sizeof(body));
    std::copy(option.begin(), option.end(), record.bytes.begin() + sizeof(request) + sizeof(body));
    const Answer answer = program.send(std::move(record));
    CmAnswer result{answer.header.error, answer.message(), {}};
    if (result.error == 0) {
      const auto reply = answer.as<abi::CmCommandReply>();
      const auto output = std::as_bytes(std::span(reply.output)).first(reply.output_length);
      result.output.assign(output.begin(), output.end());
      bytes_taken = reply.leaving;
      take_bytes(reply.leaving, channel);
      if (other != nullptr) {
        take_bytes(reply.leaving_other, *other);
      } else {
        EXPECT_EQ(reply.leaving_other, 0U) << "of a channel that the command isn't about";
      }
      counted_id = reply.event_id;
      counted_membership = reply.event_membership;
    }
    return result;
  }

  // An option of level RDMA_OPTION_ID.
  template <typename Value>
  CmAnswer set_option(const ProgramChannel& channel, std::uint32_t id, std::uint32_t name,
                      const Value& value) {
    rdma_ucm_set_option body{};
    body.id = id;
    body.level = RDMA_OPTION_ID;
    body.optname = name;
    return command(channel, RDMA_USER_CM_CMD_SET_OPTION, body, std::as_bytes(std::span(&value, 1)));
  }
  std::uint32_t create_id(const ProgramChannel& channel, std::uint64_t uid,
                          std::uint16_t space = RDMA_PS_TCP, std::uint8_t qp_type = 0) {
    rdma_ucm_create_id body{};
    body.uid = uid;
    body.ps = space;
    body.qp_type = qp_type;
    return command(channel, RDMA_USER_CM_CMD_CREATE_ID, body).as<rdma_ucm_create_id_resp>().id;
  }
  CmAnswer destroy_id(const ProgramChannel& channel, std::uint32_t id) {
    rdma_ucm_destroy_id body{};
    body.id = id;
    return command(channel, RDMA_USER_CM_CMD_DESTROY_ID, body);
  }
  CmAnswer bind(const ProgramChannel& channel, std::uint32_t id, const char* address,
                std::uint16_t port) {
    rdma_ucm_bind_ip body{};
    body.id = id;
    body.addr = socket_address(address, port);
    return command(channel, RDMA_USER_CM_CMD_BIND_IP, body);
  }
  CmAnswer resolve(const ProgramChannel& channel, std::uint32_t id, const char* address,
                   std::uint16_t port, std::uint32_t timeout_ms = 2000) {
    rdma_ucm_resolve_ip body{};
    body.id = id;
    body.dst_addr = socket_address(address, port);
    body.timeout_ms = timeout_ms;
    return command(channel, RDMA_USER_CM_CMD_RESOLVE_IP, body);
  }
  CmAnswer resolve_route(const ProgramChannel& channel, std::uint32_t id) {
    return command(channel, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000});
  }
  CmAnswer listen(const ProgramChannel& channel, std::uint32_t id) {
    return command(channel, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 0});
  }
  CmAnswer connect(const ProgramChannel& channel, std::uint32_t id, std::uint32_t qpn,
                   const char* data = "", rdma_ucm_ece ece = {}) {
    rdma_ucm_connect body{};
    body.ece = ece;
    body.id = id;
    fill(&body.conn_param, qpn, data);
    return command(channel, RDMA_USER_CM_CMD_CONNECT, body);
  }
  CmAnswer accept(const ProgramChannel& channel, std::uint32_t id, std::uint64_t uid,
                  std::uint32_t qpn, const char* data = "", rdma_ucm_ece ece = {}) {
    rdma_ucm_accept body{};
    body.ece = ece;
    body.id = id;
    body.uid = uid;
    fill(&body.conn_param, qpn, data);
    return command(channel, RDMA_USER_CM_CMD_ACCEPT, body);
  }
  // The active side's second step.
  CmAnswer establish(const ProgramChannel& channel, std::uint32_t id) {
    rdma_ucm_accept body{};
    body.id = id;
    return command(channel, RDMA_USER_CM_CMD_ACCEPT, body);
  }
  CmAnswer disconnect(const ProgramChannel& channel, std::uint32_t id) {
    return command(channel, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id});
  }
  CmAnswer migrate(const ProgramChannel& to, std::uint32_t id, const ProgramChannel& from) {
    rdma_ucm_migrate_id body{};
    body.id = id;
    return command(to, RDMA_USER_CM_CMD_MIGRATE_ID, body, {}, &from);
  }
  rdma_ucm_query_route_resp query_route(const ProgramChannel& channel, std::uint32_t id) {
    rdma_ucm_query body{};
    body.id = id;
    return command(channel, RDMA_USER_CM_CMD_QUERY_ROUTE, body).as<rdma_ucm_query_route_resp>();
  }

  // nullopt if there is no event.
  std::optional<rdma_ucm_event_resp> next_event(const ProgramChannel& channel) {
    const CmAnswer answer = command(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{});
    return !answer.output.empty() ? std::optional(answer.as<rdma_ucm_event_resp>()) : std::nullopt;
  }
  // The next event, which must have this number.
  rdma_ucm_event_resp expect_event(const ProgramChannel& channel, EventNumber number) {
    EXPECT_TRUE(channel.readable());
    const auto event = next_event(channel);
    EXPECT_TRUE(event);
    EXPECT_EQ(event ? static_cast<EventNumber>(event->event) : EventNumber::kAddrChange, number);
    return event.value_or(rdma_ucm_event_resp{});
  }

  // The number of a new queue pair of the program.
  std::uint32_t make_qp() {
    if (program.session.device() == nullptr) {
      program.open();
    }
    const abi::CreateQpRequest request = program.rc_qp(program.make_pd(), program.make_cq());
    return program.ask(abi::Command::kCreateQp, request).as<abi::CreateQpReply>().qpn;
  }

  static sockaddr_in6 socket_address(const char* text, std::uint16_t port) {
    sockaddr_in6 address{};
    const auto bytes = std::as_writable_bytes(std::span(&address, 1));
    store_sockaddr(endpoint_of(*parse_ip(text), port), bytes);
    return address;
  }

  Program program;
  // Of the last command that succeeded.
  std::uint32_t bytes_taken = 0;
  std::uint32_t counted_id = 0, counted_membership = 0;  // handle + 1

 private:
  static void fill(rdma_ucm_conn_param* to, std::uint32_t qpn, const char* data) {
    to->qp_num = qpn;
    to->private_data_len = static_cast<std::uint8_t>(std::strlen(data));
    std::memcpy(to->private_data, data, to->private_data_len);
    to->responder_resources = to->initiator_depth = 4;
    to->retry_count = to->rnr_retry_count = 7;
    to->valid = 1;
  }
  static void take_bytes(std::uint32_t count, const ProgramChannel& channel) {
    char byte = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(::recv(channel.pipe.get(), &byte, 1, MSG_DONTWAIT), 1);
    }
  }
};

}  // namespace uroce::control::cm_user
