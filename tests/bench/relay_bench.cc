// The cost of a process between two programs: 8 bytes go back and forth between two processes that
// spin, as ib_write_lat's do, stored by the sender itself ("stored"), or copied by a third process
// that does nothing else ("relayed"). The three share the available processors. local_bench.sh
// compares a daemon's latency with it.
//
//   build/tests/bench/relay_bench [--json] [--brief]

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/prefetch.h"
#include "base/time/monotonic_clock.h"
#include "tests/bench/parts/figures.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kMessages = 5'000;    // as many as ib_write_lat sends there
constexpr std::uint32_t kPollsPerYield = 16;  // empty ones, as in the shim
constexpr std::uint32_t kRelaysPerYield = 4;  // as in the daemon
constexpr unsigned kSecondsMax = 60;

struct alignas(2 * kCacheLine) Line {
  std::atomic<std::uint64_t> value{0};
  static_assert(decltype(value)::is_always_lock_free, "processes share it");
};

// The memory that the three share. Index: the program.
struct Shared {
  std::array<Line, 2> posted;     // by the program, for the relay
  std::array<Line, 2> completed;  // by the relay, for the program
  std::array<Line, 2> memory;     // the program's own, written by the other one
};

template <typename Done>
void spin(std::uint32_t polls_per_yield, const Done& done) {
  for (std::uint32_t polls = 1; !done(); ++polls) {
    if (polls % polls_per_yield == 0) {
      sched_yield();
    }
  }
}

// Does not return.
void relay(Shared& shared) {
  std::array<std::uint64_t, 2> seen{};
  for (;;) {
    spin(kRelaysPerYield, [&] {
      bool any = false;
      for (std::size_t from = 0; from < seen.size(); ++from) {
        const std::uint64_t message = shared.posted[from].value.load(std::memory_order_acquire);
        if (message != seen[from]) {
          seen[from] = message;
          shared.memory[1 - from].value.store(message, std::memory_order_release);
          shared.completed[from].value.store(message, std::memory_order_release);
          any = true;
        }
      }
      return any;
    });
  }
}

void send(Shared& shared, std::size_t from, std::uint64_t message, bool relayed) {
  if (!relayed) {
    shared.memory[1 - from].value.store(message, std::memory_order_release);
    return;
  }
  shared.posted[from].value.store(message, std::memory_order_release);
  spin(kPollsPerYield,
       [&] { return shared.completed[from].value.load(std::memory_order_acquire) == message; });
}

// A program that polls its memory makes no calls, so it doesn't yield.
void receive(Shared& shared, std::size_t at, std::uint64_t message) {
  while (shared.memory[at].value.load(std::memory_order_acquire) != message) {
  }
}

template <typename Body>
pid_t in_a_process(const Body& body) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  UROCE_CHECK(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) {
      body();
    }
    ::_exit(0);
  }
  return child;
}

// Half of each round trip in us, after as many that don't count.
std::vector<double> half_round_trips(Shared& shared, bool relayed, std::uint32_t messages) {
  std::vector<double> halves;
  halves.reserve(messages);
  Time before = 0;
  for (std::uint64_t message = 1; message <= 2 * messages; ++message) {
    if (message == messages + 1) {
      before = monotonic_now();
    }
    send(shared, 0, message, relayed);
    receive(shared, 0, message);
    if (message > messages) {
      const Time now = monotonic_now();
      halves.push_back(static_cast<double>(now - before) / 2'000);
      before = now;
    }
  }
  return halves;
}

void measure(bool relayed, std::uint32_t messages, const std::string& name, Figures* figures) {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  UROCE_CHECK(memory != MAP_FAILED);
  Shared& shared = *new (memory) Shared;
  const pid_t between = relayed ? in_a_process([&] { relay(shared); }) : -1;
  const pid_t other = in_a_process([&] {
    for (std::uint64_t message = 1; message <= 2 * messages; ++message) {
      receive(shared, 1, message);
      send(shared, 1, message, relayed);
    }
  });
  std::vector<double> halves = half_round_trips(shared, relayed, messages);
  figures->note(name + "_mean_us", std::accumulate(halves.begin(), halves.end(), 0.0) / messages);
  std::nth_element(halves.begin(), halves.begin() + messages / 2, halves.end());
  figures->note(name + "_us", halves[messages / 2]);
  UROCE_CHECK(::waitpid(other, nullptr, 0) == other);
  if (relayed) {
    ::kill(between, SIGKILL);
    ::waitpid(between, nullptr, 0);
  }
  ::munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using uroce::bench::has_flag;
  const std::uint32_t messages = has_flag(argc, argv, "--brief") ? 20 : uroce::bench::kMessages;
  ::alarm(uroce::bench::kSecondsMax);  // if one of the others ended, this one would wait forever
  uroce::bench::Figures figures;
  uroce::bench::measure(false, messages, "stored_8b", &figures);
  uroce::bench::measure(true, messages, "relayed_8b", &figures);
  figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
