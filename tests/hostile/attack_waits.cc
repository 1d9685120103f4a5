// waits WHAT: tries to make the daemon wait for this program.

#include <arpa/inet.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <string_view>
#include <thread>

#include "abi/cq_records.h"
#include "abi/device_records.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/slow_file.h"

namespace uroce::hostile {
namespace {

constexpr int kLingerSeconds = 3600;
constexpr auto kSettled = std::chrono::milliseconds(100);

// A TCP socket that takes an hour to be closed: it lingers, and its peer doesn't read.
UniqueFd lingering_socket() {
  static std::vector<UniqueFd> peers;
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), any, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), any, &length) != 0 ||
      ::connect(socket.get(), any, length) != 0) {
    give_up("can't make a TCP connection");
  }
  peers.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::array<std::byte, 65'536> data{};
  while (::send(socket.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
  }
  const linger how{.l_onoff = 1, .l_linger = kLingerSeconds};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &how, sizeof(how));
  return socket;
}

[[noreturn]] void stay() {
  say_attacking();
  for (;;) {
    ::pause();
  }
}

// The daemon gets the only reference. Doesn't wait for an answer, which may never come. False:
// this user may pass no descriptors.
template <typename Body>
bool pass(RawSession& session, abi::Command command, Body body, UniqueFd descriptor) {
  std::vector<UniqueFd> descriptors;
  descriptors.push_back(std::move(descriptor));
  Record record = session.make(command, body, std::move(descriptors));
  const bool sent = session.send(record);
  // A file's own close would wait, too.
  for (UniqueFd& ours : record.descriptors) {
    std::thread([number = ours.release()] { ::close(number); }).detach();
  }
  return sent;
}

void expect(bool sent) {
  if (!sent) {
    give_up("the record can't be sent");
  }
}

// With a record that is refused. Several, since the daemon may close one before this program has
// closed its own.
void linger_in_control() {
  constexpr int kTimes = 8;
  std::deque<RawSession> sessions;
  for (int i = 0; i < kTimes; ++i) {
    RawSession& session = sessions.emplace_back();
    if (i == 1) {
      say_attacking();  // it may not get another turn
    }
    if (session.open().closed ||
        !pass(session, abi::Command::kListDevices, Bare{}, lingering_socket())) {
      break;  // this user may pass no more, as it should be
    }
    std::this_thread::sleep_for(kSettled);
  }
  for (;;) {
    ::pause();
  }
}

// It reads no answers, so in the end its records aren't read either; then it closes.
void linger_unread() {
  constexpr int kRequests = 300;  // fewer answers fit into a socket, and 278 requests
  {
    RawSession session;
    (void)session.open();
    for (int i = 0; i < kRequests; ++i) {
      (void)session.send(session.make(abi::Command::kListDevices, Bare{}));
    }
    expect(pass(session, abi::Command::kShareArena, abi::ShareArenaRequest{}, lingering_socket()));
    std::this_thread::sleep_for(kSettled);  // only the daemon has it now
  }
  stay();
}

void close_slow_file() {
  const SlowFile file({FUSE_FLUSH});
  RawSession session;
  (void)session.open();
  expect(pass(session, abi::Command::kListDevices, Bare{}, file.open()));
  stay();
}

void name_slow_xrc_domain() {
  const SlowFile file({FUSE_GETATTR, FUSE_FLUSH});
  RawSession session;
  (void)session.open();
  abi::OpenXrcdRequest request{};
  request.flags = abi::kXrcdCreate;
  expect(pass(session, abi::Command::kOpenXrcd, request, file.open()));
  stay();
}

// Reads its events into a page that is never populated, while there are more.
void read_events_slowly() {
  const SlowFile file({FUSE_READ});
  void* const page = file.map();
  RawSession session;
  Answer opened = session.open();
  const int events = opened.record.descriptors.front().get();
  const abi::ModifySrqRequest modify = passed_limit(session);
  std::thread([events, page] {
    (void)!::read(events, page, sizeof(abi::AsyncEventRecord));
  }).detach();
  if (session.ask(abi::Command::kModifySrq, modify).header.error != 0) {
    give_up("no event is to be had");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it reads
  say_attacking();
  for (;;) {
    (void)session.ask(abi::Command::kModifySrq, modify);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

int attack_by_waiting(Arguments arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments.front();
  if (what == "linger") {
    linger_in_control();
  } else if (what == "unread") {
    linger_unread();
  } else if (what == "close") {
    close_slow_file();
  } else if (what == "xrc") {
    name_slow_xrc_domain();
  } else if (what == "events") {
    read_events_slowly();
  }
  give_up("waits linger|unread|close|xrc|events");
}

}  // namespace uroce::hostile
