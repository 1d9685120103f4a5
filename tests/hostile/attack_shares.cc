// shares KIND: takes as many objects of a kind as possible, in one session after the other, and
// goes on asking for more. status CONNECTIONS: makes as many queue pairs as possible, and requests
// status reports on many connections without reading them.

#include <unistd.h>

#include <algorithm>

#include <array>
#include <cstdio>
#include <deque>
#include <string_view>

#include "abi/address_records.h"
#include "abi/cq_records.h"
#include "abi/memory_records.h"
#include "base/ipv4_mapped.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::size_t kSessionsMax = 24;
constexpr useconds_t kPauseUs = 1'000;

// An object of a kind in a session that has the protection domain 0; false: refused.
using Make = bool (*)(RawSession&);

bool made(const Answer& answer) { return !answer.closed && answer.header.error == 0; }

bool make_pd(RawSession& session) { return made(session.ask(abi::Command::kAllocPd, Bare{})); }
bool make_cq(RawSession& session) {
  abi::CreateCqRequest request{};
  request.entries = 1;
  return made(session.ask(abi::Command::kCreateCq, request));
}
bool make_channel(RawSession& session) {
  return made(session.ask(abi::Command::kCreateChannel, Bare{}));
}
bool make_window(RawSession& session) {
  abi::AllocMwRequest request{};
  request.type = 1;
  return made(session.ask(abi::Command::kAllocMw, request));
}
bool make_region(RawSession& session) {
  return made(session.ask(abi::Command::kAllocNullMr, abi::AllocNullMrRequest{}));
}
bool make_address_handle(RawSession& session) {
  abi::CreateAhRequest request{};
  request.address.is_global = 1;
  request.address.port = 1;
  request.address.sgid_index = 1;
  constexpr auto kPeer = ipv4_mapped(std::array<std::uint8_t, 4>{10, 77, 0, 9});
  std::copy(kPeer.begin(), kPeer.end(), request.address.dgid);
  return made(session.ask(abi::Command::kCreateAh, request));
}
bool make_device_memory(RawSession& session) {
  abi::AllocDmRequest request{};
  request.length = 65'536;
  return made(session.ask(abi::Command::kAllocDm, request));
}
// An XRC receiving queue pair: it needs no rings.
bool make_queue_pair(RawSession& session) {
  abi::CreateQpRequest request{};
  request.type = 10;  // IBV_QPT_XRC_RECV
  return made(session.ask(abi::Command::kCreateQp, request));
}

struct Kind {
  std::string_view name;
  Make make;
};
constexpr std::array kKinds{
    Kind{"pds", make_pd},
    Kind{"cqs", make_cq},
    Kind{"channels", make_channel},
    Kind{"windows", make_window},
    Kind{"regions", make_region},
    Kind{"ahs", make_address_handle},
    Kind{"dms", make_device_memory},
    Kind{"qps", make_queue_pair},
};

Make maker(Arguments arguments) {
  for (const Kind& kind : kKinds) {
    if (!arguments.empty() && kind.name == arguments[0]) {
      return kind.make;
    }
  }
  give_up("shares: which kind?");
}

// A session with protection domain 0 and XRC domain 0, if they can be had.
bool begin(RawSession& session) {
  abi::OpenXrcdRequest domain{};
  domain.flags = abi::kXrcdCreate;
  return made(session.open()) && make_pd(session) &&
         made(session.ask(abi::Command::kOpenXrcd, domain));
}

// Returns how many there are.
std::uint64_t take_all(std::deque<RawSession>& sessions, Make make) {
  std::uint64_t count = 0;
  while (sessions.size() < kSessionsMax) {
    RawSession& session = sessions.emplace_back();
    if (!begin(session)) {
      sessions.pop_back();
      break;
    }
    while (make(session)) {
      ++count;
    }
  }
  return count;
}

}  // namespace

int attack_shares(Arguments arguments) {
  const Make make = maker(arguments);
  std::deque<RawSession> sessions;
  std::printf("took %llu\n", static_cast<unsigned long long>(take_all(sessions, make)));
  say_attacking();
  for (;;) {
    for (RawSession& session : sessions) {
      (void)make(session);
      ::usleep(kPauseUs);
    }
  }
}

int attack_status(Arguments arguments) {
  std::deque<RawSession> sessions;
  std::printf("took %llu\n", static_cast<unsigned long long>(take_all(sessions, make_queue_pair)));
  std::deque<RawSession> readers;
  const std::uint64_t wanted = number(arguments, 0, 60);
  abi::RequestHeader request{};
  for (std::uint64_t i = 0; i < wanted; ++i) {
    readers.emplace_back().send_only(abi::Command::kStatus, request);
  }
  say_attacking();
  for (;;) {
    // One connection that does read keeps the daemon busy with reports.
    readers.pop_back();
    readers.emplace_back().send_only(abi::Command::kStatus, request);
    while ((readers.back().receive().header.flags & abi::kReplyMore) != 0) {
    }
  }
}

}  // namespace uroce::hostile
