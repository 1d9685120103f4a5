#include "control/commands/capture.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "control/commands/command_table.h"
#include "control/commands/conversation.h"

namespace uroce::control {

Result<std::unique_ptr<Capture>> Capture::start(Engine& engine, const abi::CaptureRequest& request,
                                                Account& account) {
  const std::uint64_t bytes = std::bit_floor(std::clamp(
      request.ring_bytes / engine.workers(), abi::kCaptureRingMin, abi::kCaptureRingMax));
  std::unique_ptr<Capture> capture(new Capture(engine, bytes));
  for (std::uint32_t worker = 0; worker < engine.workers(); ++worker) {
    auto memory = SealedMemory::create("uroce-capture", abi::kCaptureRingOffset + bytes, account);
    if (!memory) {
      return memory.error();
    }
    capture->memory_.push_back(std::move(*memory));
    capture->writers_.push_back(std::make_unique<CaptureWriter>(
        std::span(capture->memory_.back().data(), abi::kCaptureRingOffset + bytes), request.snap));
  }
  if (Status attached = capture->attach(); !attached) {
    return attached.error();
  }
  return Result<std::unique_ptr<Capture>>(std::move(capture));
}

Status Capture::attach() {
  for (std::uint32_t i = 0; i < writers_.size(); ++i) {
    bool free = false;
    engine_.call(i, [&](Worker& worker) { free = worker.set_capture(writers_[i].get()); });
    if (!free) {
      return Error{EBUSY, "somebody else captures already"};
    }
    ++attached_;
  }
  return ok();
}

Capture::~Capture() {
  for (std::uint32_t i = 0; i < attached_; ++i) {
    engine_.call(i, [](Worker& worker) { (void)worker.set_capture(nullptr); });
  }
}

std::vector<UniqueFd> Capture::take_descriptors() {
  std::vector<UniqueFd> descriptors;
  for (SealedMemory& memory : memory_) {
    descriptors.push_back(memory.take_descriptor());
  }
  return descriptors;
}

Result<Outcome> begin_capture(Conversation& conversation, Request& request, Reply* reply) {
  const auto body = request.as<abi::CaptureRequest>();
  Session& session = conversation.session();
  if (!is_administrator(session.peer())) {
    return Error{EPERM,
                 "a capture has the packets of all users: only root and the daemon's own user may "
                 "start one"};
  }
  auto capture = Capture::start(conversation.services().card.engine(), body, *session.account());
  if (!capture) {
    return capture.error();
  }
  abi::CaptureReply answer{};
  answer.ring_bytes = (*capture)->ring_bytes();
  reply->descriptors = (*capture)->take_descriptors();
  answer.workers = static_cast<std::uint32_t>(reply->descriptors.size());
  reply->set(answer);
  conversation.keep(std::move(*capture));
  return Outcome::kReply;
}

}  // namespace uroce::control
