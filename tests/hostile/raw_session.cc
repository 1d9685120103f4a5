// A session whose records are built by hand.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "abi/version.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {

void say_attacking() {
  std::puts("attacking");
  std::fflush(stdout);
}

void give_up(const std::string& why) {
  std::fprintf(stderr, "gave up: %s\n", why.c_str());  // tests/hostile/hostile_case.py looks for it
  std::exit(1);
}

std::string socket_path() {
  const char* const path = std::getenv("UROCE_SOCKET");
  if (path == nullptr) {
    give_up("UROCE_SOCKET names no daemon");
  }
  return path;
}

std::uint64_t number(Arguments arguments, std::size_t index, std::uint64_t otherwise) {
  return index < arguments.size() ? std::strtoull(arguments[index], nullptr, 0) : otherwise;
}

RawSession::RawSession() {
  auto socket = connect_to(socket_path());
  if (!socket) {
    give_up(socket.error().message);
  }
  socket_ = std::move(*socket);
}

void RawSession::fill(abi::RequestHeader* header, abi::Command command, std::size_t length,
                      std::size_t descriptors) {
  header->magic = abi::kMagic;
  header->version = abi::kVersion;
  header->command = command;
  header->sequence = ++sequence_;
  header->length = static_cast<std::uint32_t>(length);
  header->descriptor_count = static_cast<std::uint32_t>(descriptors);
}

bool RawSession::send(const Record& record) {
  return send_record(socket_.get(), record) == Sending::kSent;
}

Answer RawSession::receive() {
  Answer answer;
  answer.closed = receive_record(socket_.get(), &answer.record) != ReceiveStatus::kRecord;
  if (!answer.closed && answer.record.bytes.size() >= sizeof(answer.header)) {
    std::memcpy(&answer.header, answer.record.bytes.data(), sizeof(answer.header));
  }
  return answer;
}

abi::ModifySrqRequest passed_limit(RawSession& session) {
  constexpr std::uint32_t kSrqLimit = 2;  // IBV_SRQ_LIMIT
  abi::CreateSrqRequest create{};
  create.pd = session.ask(abi::Command::kAllocPd, Bare{}).as<abi::HandleReply>().handle;
  create.max_wr = 8;
  create.max_sge = 1;
  const auto srq = session.ask(abi::Command::kCreateSrq, create).as<abi::CreateSrqReply>();
  abi::ModifySrqRequest modify{};
  modify.handle = srq.handle;
  modify.mask = kSrqLimit;
  modify.limit = 3;
  return modify;
}

}  // namespace uroce::hostile
