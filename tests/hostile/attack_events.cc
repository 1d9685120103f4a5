// unread events SESSIONS: that many sessions cause asynchronous events all the time and read none.
// unread channels SESSIONS: the same with completion channels, each of them armed for every WRITE.

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/bench/parts/card.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr int kChannels = 32;
constexpr std::size_t kWrittenBytes = 64;

[[noreturn]] void make_events() {
  RawSession session;
  (void)session.open();
  const abi::ModifySrqRequest modify = passed_limit(session);
  say_attacking();
  for (;;) {
    const Answer answer = session.ask(abi::Command::kModifySrq, modify);
    if (answer.closed || answer.header.error != 0) {
      give_up("no event is to be had");
    }
  }
}

// Two connected queue pairs whose completions are announced on one channel.
struct Told {
  explicit Told(const bench::BenchCard& card)
      : channel(ibv_create_comp_channel(card.context())),
        queue(ibv_create_cq(card.context(), 2 * bench::BenchPair::kDepth, nullptr, channel, 0)),
        pair(card, bench::BenchPair::kDepth, queue) {}

  ibv_comp_channel* channel;
  ibv_cq* queue;
  bench::BenchPair pair;
};

[[noreturn]] void fill_channels() {
  bench::BenchCard card;
  const bench::Pages pages(4096);
  const auto region = card.register_range(pages.data(), pages.length(), false);
  std::vector<std::unique_ptr<Told>> all;
  for (int i = 0; i < kChannels; ++i) {
    all.push_back(std::make_unique<Told>(card));
  }
  say_attacking();
  for (;;) {
    for (const auto& told : all) {
      UROCE_CHECK(ibv_req_notify_cq(told->queue, 0) == 0);
      told->pair.post_write(*region, 0, *region, kWrittenBytes, kWrittenBytes);
    }
    for (const auto& told : all) {
      told->pair.drain();
    }
  }
}

}  // namespace

int attack_unread(Arguments arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments.front();
  for (std::uint64_t i = 1; i < number(arguments, 1, 1) && ::fork() != 0; ++i) {
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (what == "events") {
    make_events();
  } else if (what == "channels") {
    fill_channels();
  }
  give_up("unread events|channels SESSIONS");
}

}  // namespace uroce::hostile
