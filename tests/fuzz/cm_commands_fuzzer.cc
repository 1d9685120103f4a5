// A hostile program's writes to librdmacm's device, as the daemon gets them: commands of
// rdma/rdma_user_cm.h on two channels, with valid and invalid addresses, ids and numbers. Every
// command is answered or refused, and a program that ends leaves nothing behind.
//
// The input is a list of choices: command, channel, fields, what is corrupted, whether time passes.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/cm_records.h"
#include "abi/version.h"
#include "control/cm_user/endpoint.h"
#include "tests/fuzz/byte_source.h"
#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

using test::ByteSource;

constexpr std::size_t kCommandsMax = 256;
constexpr std::uint32_t kChannels = 2;
constexpr std::uint32_t kHandles = 8;  // used by commands: the first ones handed out

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "cm_commands_fuzzer: %s\n", what);
    std::abort();
  }
}

struct Body {
  std::array<std::byte, abi::kCmInputMax> bytes{};
  std::size_t length = 0;

  template <typename Command>
  void set(const Command& command) {
    static_assert(sizeof(Command) <= abi::kCmInputMax);
    std::memcpy(bytes.data(), &command, sizeof(command));
    length = sizeof(command);
  }
};

template <typename Address>
void choose_address(ByteSource& input, Address* to) {
  constexpr const char* kAddresses[] = {
      "10.0.0.1", "fd00::1", "0.0.0.0", "::", "127.0.0.1", "10.9.9.9", "239.1.1.1"};
  const Gid gid = *parse_ip(kAddresses[input.below(std::size(kAddresses))]);
  std::array<std::byte, sizeof(sockaddr_in6)> bytes{};
  const auto port = static_cast<std::uint16_t>(7'000 + input.below(3));
  const std::size_t length = cm_user::store_sockaddr(cm_user::endpoint_of(gid, port), bytes);
  std::memcpy(to, bytes.data(), std::min(sizeof(*to), length));
}

std::uint32_t choose_handle(ByteSource& input) { return input.take<std::uint8_t>() % kHandles; }

rdma_ucm_conn_param choose_parameters(ByteSource& input) {
  rdma_ucm_conn_param parameters{};
  parameters.valid = input.take<std::uint8_t>() % 8 != 0 ? 1 : 0;
  parameters.qp_num = input.take<std::uint8_t>();
  parameters.responder_resources = input.take<std::uint8_t>();
  parameters.retry_count = input.take<std::uint8_t>();
  parameters.private_data_len = input.take<std::uint8_t>();
  return parameters;
}

// Commands that set up a connection.
bool connecting_body(ByteSource& input, std::uint32_t number, Body* body) {
  switch (number) {
    case RDMA_USER_CM_CMD_CREATE_ID: {
      constexpr std::uint16_t kSpaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB};
      rdma_ucm_create_id command{};
      command.uid = input.take<std::uint8_t>();
      command.ps = kSpaces[input.below(std::size(kSpaces))];
      command.qp_type = input.flag() ? std::uint8_t{IBV_QPT_RC} : input.take<std::uint8_t>();
      body->set(command);
      return true;
    }
    case RDMA_USER_CM_CMD_BIND_IP: {
      rdma_ucm_bind_ip command{};
      command.id = choose_handle(input);
      choose_address(input, &command.addr);
      body->set(command);
      return true;
    }
    case RDMA_USER_CM_CMD_RESOLVE_IP: {
      rdma_ucm_resolve_ip command{};
      command.id = choose_handle(input);
      command.timeout_ms = input.take<std::uint16_t>();
      choose_address(input, &command.dst_addr);
      body->set(command);
      return true;
    }
    case RDMA_USER_CM_CMD_CONNECT: {
      rdma_ucm_connect command{};
      command.id = choose_handle(input);
      command.conn_param = choose_parameters(input);
      body->set(command);
      return true;
    }
    case RDMA_USER_CM_CMD_ACCEPT: {
      rdma_ucm_accept command{};
      command.id = choose_handle(input);
      command.uid = input.take<std::uint8_t>();
      command.conn_param = choose_parameters(input);
      body->set(command);
      return true;
    }
    default:
      return false;
  }
}

Body choose_body(ByteSource& input, std::uint32_t number) {
  Body body;
  if (connecting_body(input, number, &body)) {
    return body;
  }
  // All others have their id after the response address, or at the start.
  const std::uint32_t handle = choose_handle(input);
  const bool answered =
      number == RDMA_USER_CM_CMD_DESTROY_ID || number == RDMA_USER_CM_CMD_QUERY ||
      number == RDMA_USER_CM_CMD_QUERY_ROUTE || number == RDMA_USER_CM_CMD_INIT_QP_ATTR ||
      number == RDMA_USER_CM_CMD_LEAVE_MCAST || number == RDMA_USER_CM_CMD_MIGRATE_ID;
  std::memcpy(&body.bytes[answered ? sizeof(std::uint64_t) : 0], &handle, sizeof(handle));
  body.length = input.below(abi::kCmInputMax + 1);
  return body;
}

void spoil(ByteSource& input, Body* body) {
  for (std::uint32_t left = input.take<std::uint8_t>() % 4; left != 0; --left) {
    body->bytes[input.below(abi::kCmInputMax)] = std::byte{input.take<std::uint8_t>()};
  }
  if (input.take<std::uint8_t>() % 16 == 1) {
    body->length = input.below(abi::kCmInputMax + 1);
  }
}

Record next_record(ByteSource& input) {
  const std::uint32_t number = input.take<std::uint8_t>() % (RDMA_USER_CM_CMD_JOIN_MCAST + 2U);
  const std::uint32_t channel = input.take<std::uint8_t>() % kChannels;
  Body body = choose_body(input, number);
  spoil(input, &body);
  const auto option = input.bytes(number == RDMA_USER_CM_CMD_SET_OPTION ? 8 : 0);
  abi::CmCommandRequest request{};
  request.header.version = abi::kVersion;
  request.header.command = abi::Command::kCmCommand;
  request.header.sequence = 1;
  request.header.length = static_cast<std::uint32_t>(sizeof(request) + body.length + option.size());
  request.channel = channel;
  request.other_channel = kChannels - 1 - channel;
  request.number = number;
  request.input_length = static_cast<std::uint32_t>(body.length);
  request.option_length = static_cast<std::uint32_t>(option.size());
  Record record;
  record.bytes.resize(request.header.length);
  std::memcpy(record.bytes.data(), &request, sizeof(request));
  std::memcpy(record.bytes.data() + sizeof(request), body.bytes.data(), body.length);
  if (!option.empty()) {
    std::memcpy(record.bytes.data() + sizeof(request) + body.length, option.data(), option.size());
  }
  return record;
}

bool is_success(const Record& record) {
  abi::ReplyHeader header;
  std::memcpy(&header, record.bytes.data(), sizeof(header));
  return header.error == 0;
}

void check_replies(Conversation& conversation) {
  for (const Record& record : conversation.outbox()) {
    abi::CmCommandReply reply;
    std::memcpy(&reply, record.bytes.data(), std::min(sizeof(reply), record.bytes.size()));
    require(reply.header.length == record.bytes.size(), "a reply's length is wrong");
    require((reply.header.error == 0) == (reply.header.message[0] == '\0'),
            "an error has no sentence");
    require(record.bytes.size() < sizeof(reply) || reply.output_length <= abi::kCmOutputMax,
            "a reply says that it is longer than it can be");
  }
  conversation.outbox().clear();
}

void pass_time(Rig& rig, Duration duration) {
  rig.now += duration;
  rig.connections.on_time();
}

void run(Rig& rig, ByteSource input) {
  Conversation conversation(rig.services, 1, Peer{::getpid(), ::getuid(), ::getgid()});
  for (std::uint32_t i = 0; i < kChannels; ++i) {
    conversation.receive(make_record(abi::Command::kCmOpenChannel, abi::RequestHeader{}));
    require(is_success(conversation.outbox().back()), "no channel");
  }
  conversation.outbox().clear();
  for (std::size_t i = 0; i < kCommandsMax && !input.empty(); ++i) {
    conversation.receive(next_record(input));
    check_replies(conversation);
    if (input.take<std::uint8_t>() % 16 == 1) {
      pass_time(rig, input.take<std::uint32_t>() * kNanosecondsPerMicrosecond);
    }
  }
}

}  // namespace
}  // namespace uroce::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::control;
  static Rig rig;
  run(rig, ByteSource(data, size));
  cm_user::Service& service = rig.connections;
  require(service.ids() == 0, "an id is left");
  require(service.manager().listeners().empty(), "a listener is left");
  for (const auto space :
       {cm::PortSpace::kIpoib, cm::PortSpace::kTcp, cm::PortSpace::kUdp, cm::PortSpace::kIb}) {
    require(service.ports().ports_taken(space) == 0, "a port is still taken");
  }
  require(rig.card.devices().front().groups().all().empty(), "a membership is left");
  // Pending timers of the protocol run out.
  for (int i = 0; i < 10'000 && service.manager().next_deadline() != uroce::kNever; ++i) {
    rig.now = std::max(rig.now, service.manager().next_deadline());
    service.on_time();
  }
  require(service.manager().connections().empty(), "a connection is left");
  return 0;
}
