// page SESSIONS: in that many sessions the shared page for commands without a system call always
// shows a request: a valid one, an invalid one, or one in an undefined state.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "abi/command_page.h"
#include "abi/device_records.h"
#include "abi/ring_records.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::uint32_t kStates = 6;  // one more than there are
constexpr std::uint32_t kTurnsBetweenSends = 50;

abi::CommandPage& map_page(const Answer& opened) {
  const auto reply = opened.as<abi::OpenDeviceReply>();
  if (opened.closed || reply.header.error != 0 || opened.record.descriptors.size() < 2) {
    give_up("no device is to be had");
  }
  const std::size_t doorbells = reply.workers * reply.doorbells_stride;
  void* const memory = ::mmap(nullptr, doorbells + sizeof(abi::CommandPage), PROT_READ | PROT_WRITE,
                              MAP_SHARED, opened.record.descriptors[1].get(), 0);
  if (memory == MAP_FAILED) {
    give_up("the page can't be mapped");
  }
  if (::fcntl(opened.record.descriptors[1].get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    give_up("the page can't be sealed, and isn't looked at");
  }
  return *reinterpret_cast<abi::CommandPage*>(static_cast<std::byte*>(memory) + doorbells);
}

// A command: for rings that don't exist, or one that always succeeds.
Record request(RawSession& session, std::uint64_t number) {
  abi::HandleRequest body{};
  body.handle = static_cast<std::uint32_t>(number);
  return number % 2 == 0 ? session.make(abi::Command::kMapRings, body)
                         : session.make(abi::Command::kListDevices, Bare{});
}

[[noreturn]] void scribble() {
  RawSession session;
  abi::CommandPage& page = map_page(session.open());
  std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
  std::byte unread[4'096];
  say_attacking();
  for (std::uint32_t turn = 0;; ++turn) {
    const Record record = request(session, random());
    std::copy(record.bytes.begin(), record.bytes.end(), page.request);
    const bool right = random() % 2 == 0;
    if (!right) {  // after the version; a wrong one would end the session
      page.request[8 + random() % (sizeof(abi::RequestHeader) - 8)] = std::byte(random());
    }
    // A record that is shorter than its header would end the session, too.
    page.request_length = static_cast<std::uint32_t>(
        right || random() % 2 == 0 ? record.bytes.size()
                                   : sizeof(abi::RequestHeader) + random() % abi::kPageRequestMax);
    page.state =
        right ? abi::PageState::kRequested : static_cast<abi::PageState>(random() % kStates);
    if (turn % kTurnsBetweenSends == 0) {  // so that the daemon polls the page
      (void)::send(session.descriptor(), record.bytes.data(), record.bytes.size(),
                   MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    while (::recv(session.descriptor(), unread, sizeof(unread), MSG_DONTWAIT) > 0) {
    }
  }
}

}  // namespace

int attack_page(Arguments arguments) {
  for (std::uint64_t i = 1; i < number(arguments, 0, 1) && ::fork() != 0; ++i) {
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  scribble();
}

}  // namespace uroce::hostile
