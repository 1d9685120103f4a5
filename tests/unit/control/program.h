#pragma once

// A program at a conversation without a socket in between, and the answers to one with a socket.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "tests/unit/control/rig.h"

namespace uroce::control {

struct Answer {
  abi::ReplyHeader header{};
  Record record;

  [[nodiscard]] std::string message() const { return header.message; }
  template <typename Body>
  [[nodiscard]] Body as() const {
    Body body{};
    EXPECT_GE(record.bytes.size(), sizeof(Body));
    std::memcpy(static_cast<void*>(&body), record.bytes.data(),
                std::min(sizeof(Body), record.bytes.size()));
    return body;
  }
};

// The next reply on a socket; error -1 if none comes.
inline Answer receive(const UniqueFd& connection) {
  Answer answer;
  answer.header.error = -1;
  if (receive_record(connection.get(), &answer.record) == ReceiveStatus::kRecord) {
    std::memcpy(&answer.header, answer.record.bytes.data(), sizeof(answer.header));
  }
  return answer;
}

// A program without a socket.
class Program {
 public:
  explicit Program(Rig& rig, uid_t uid = ::getuid()) : Program(rig, Peer{::getpid(), uid, 0}) {}
  Program(Rig& rig, const Peer& peer)
      : conversation(rig.services, next_id()++, peer), session(conversation.session()) {}

  template <typename Body>
  Answer ask(abi::Command command, const Body& body) {
    return send(make_record(command, body, ++sequence_));
  }
  Answer ask(abi::Command command) { return ask(command, abi::RequestHeader{}); }
  Answer ask_about(abi::Command command, std::uint32_t handle) {
    return ask(command, abi::HandleRequest{{}, handle, 0});
  }
  Answer send(Record record) {
    abi::RequestHeader header{};
    std::copy_n(record.bytes.begin(), std::min(sizeof(header), record.bytes.size()),
                reinterpret_cast<std::byte*>(&header));
    conversation.receive(std::move(record));
    // A helper opens what is needed; the server would resume the conversation when it is done.
    while (conversation.waiting() && (header.command == abi::Command::kRegMr ||
                                      header.command == abi::Command::kOpenPaging)) {
      std::this_thread::yield();
      conversation.resume();
    }
    while (conversation.answering()) {
      conversation.answer_more();
    }
    return take();
  }
  // The oldest reply; error -1 if there is none.
  Answer take() {
    Answer answer;
    answer.header.error = -1;
    if (auto& outbox = conversation.outbox(); !outbox.empty()) {
      answer.record = std::move(outbox.front());
      outbox.pop_front();
      std::memcpy(&answer.header, answer.record.bytes.data(), sizeof(answer.header));
    }
    return answer;
  }

  void open() {
    ASSERT_EQ(ask(abi::Command::kOpenDevice, abi::OpenDeviceRequest{}).header.error, 0);
  }
  std::uint32_t make_pd() { return ask(abi::Command::kAllocPd).as<abi::HandleReply>().handle; }
  std::uint32_t make_cq() {
    abi::CreateCqRequest request{};
    request.entries = 16;
    request.cookie = 77;
    return ask(abi::Command::kCreateCq, request).as<abi::CreateCqReply>().handle;
  }
  abi::CreateQpRequest rc_qp(std::uint32_t pd, std::uint32_t cq) {
    abi::CreateQpRequest request{};
    request.type = static_cast<std::uint32_t>(QpType::kRc);
    request.pd = pd;
    request.send_cq = request.recv_cq = cq;
    request.max_send_wr = request.max_recv_wr = 8;
    request.max_send_sge = request.max_recv_sge = 2;
    request.cookie = 99;
    return request;
  }

  Conversation conversation;
  Session& session;

 private:
  static std::uint64_t& next_id() {
    static std::uint64_t id = 1;
    return id;
  }
  std::uint32_t sequence_ = 0;
};

}  // namespace uroce::control
