// resize cq|srq SESSIONS: in that many sessions the largest possible ring, whose indices claim
// that it is full, is resized again and again.

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string_view>

#include "abi/completion.h"
#include "abi/cq_records.h"
#include "abi/ring.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::uint32_t kEntriesMax = 262'144;  // of a completion queue
constexpr std::uint32_t kRequestsMax = 16'384;  // of a receive queue
constexpr std::uint32_t kElementsMax = 32;      // of a receive
constexpr std::uint32_t kRefusalsMax = 100;     // consecutive ones; then the attack is impossible

// REQUIRES: the reply has the memory as its only descriptor.
std::byte* map(const Answer& answer, std::uint64_t length) {
  if (answer.closed || answer.header.error != 0 || answer.record.descriptors.size() != 1) {
    give_up("no ring is to be had");
  }
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED,
                              answer.record.descriptors.front().get(), 0);
  if (memory == MAP_FAILED) {
    give_up("the ring can't be mapped");
  }
  return static_cast<std::byte*>(memory);
}

// Both steps, for ever; fake() makes the ring appear full before each commit.
template <typename Request, typename Fake>
[[noreturn]] void resize(RawSession& session, abi::Command command, Request request, Fake&& fake) {
  say_attacking();
  for (std::uint32_t refused = 0; refused < kRefusalsMax;) {
    request.commit = 0;
    (void)session.ask(command, request);
    fake();
    request.commit = 1;
    const Answer answer = session.ask(command, request);
    refused = answer.closed || answer.header.error != 0 ? refused + 1 : 0;
  }
  give_up("resizing is refused");
}

[[noreturn]] void resize_completion_queue() {
  RawSession session;
  (void)session.open();
  abi::CreateCqRequest create{};
  create.entries = kEntriesMax;
  const Answer answer = session.ask(abi::Command::kCreateCq, create);
  const auto cq = answer.as<abi::CreateCqReply>();
  auto* const control =
      reinterpret_cast<abi::CqControl*>(map(answer, cq.memory_length) + cq.control_offset);
  abi::ResizeCqRequest request{};
  request.handle = cq.handle;
  request.entries = kEntriesMax;
  resize(session, abi::Command::kResizeCq, request,
         [control] { control->ring.consumer.value.store(0U - kEntriesMax); });
}

[[noreturn]] void resize_receive_queue() {
  RawSession session;
  (void)session.open();
  abi::CreateSrqRequest create{};
  create.pd = session.ask(abi::Command::kAllocPd, Bare{}).as<abi::HandleReply>().handle;
  create.max_wr = kRequestsMax;
  create.max_sge = kElementsMax;
  const Answer answer = session.ask(abi::Command::kCreateSrq, create);
  const auto srq = answer.as<abi::CreateSrqReply>();
  auto* const control =
      reinterpret_cast<abi::RingControl*>(map(answer, srq.memory_length) + srq.ring.control_offset);
  abi::ResizeSrqRequest request{};
  request.handle = srq.handle;
  request.max_wr = kRequestsMax;
  resize(session, abi::Command::kResizeSrq, request,
         [control, entries = srq.ring.entries] { control->producer.value.store(entries); });
}

}  // namespace

int attack_by_resizing(Arguments arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments.front();
  for (std::uint64_t i = 1; i < number(arguments, 1, 1) && ::fork() != 0; ++i) {
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (what == "cq") {
    resize_completion_queue();
  } else if (what == "srq") {
    resize_receive_queue();
  }
  give_up("resize cq|srq SESSIONS");
}

}  // namespace uroce::hostile
