// An honest program beside an attack: one thread writes to its own memory through the card and
// verifies it, the other makes and destroys objects. Each line on standard input ends a phase: the
// program prints its measurements as a line of JSON, and begins the next. It ends at the end of
// input.
//
//   --connected N ADDRESS   also holds N queue pairs to a peer
//   --bytes N               of each WRITE
//   --on-demand             its memory is paged on demand, populated ahead and taken away again

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/parts/card.h"
#include "tests/hostile/connected_qps.h"

namespace {

using uroce::bench::BenchCard;
using uroce::bench::BenchPair;
using uroce::bench::Pages;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kRegion = std::size_t{1} << 20U;  // source and destination of its WRITEs
constexpr std::size_t kPagesBytes = std::size_t{64} << 10U;
constexpr std::chrono::milliseconds kBetweenAnswers{20};
constexpr std::size_t kLatenciesMax = std::size_t{1}
                                      << 22U;  // samples of a phase; later ones aren't kept

struct Options {
  const char* connected_to = nullptr;
  int connected = 0;
  std::uint32_t bytes = 64;
  bool on_demand = false;
};

struct Phase {
  std::vector<double> write_us;
  std::uint64_t writes = 0;
  std::uint64_t answers = 0;
  double write_us_max = 0;
  double answer_ms_max = 0;
  std::set<std::string> errors;
};

class Victim {
 public:
  explicit Victim(const Options& options)
      : options_(options),
        pages_(2 * kRegion),
        pair_(card_),
        region_(card_.register_range(pages_.data(), pages_.length(), options.on_demand)) {}

  void write_and_look();
  void make_and_destroy();
  Phase end_phase();
  void stop() { stopping_ = true; }
  [[nodiscard]] const BenchCard& card() const { return card_; }

 private:
  void note_error(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    phase_.errors.insert(what);
  }
  bool life_of_objects();
  void life_of_pages();

  Options options_;
  BenchCard card_;
  Pages pages_;
  BenchPair pair_;
  uroce::bench::RegionHandle region_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the members below
  Phase phase_;
  // max(): no answer is pending.
  Clock::time_point asking_since_ = Clock::time_point::max();
  Clock::time_point writing_since_ = Clock::time_point::max();
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void Victim::write_and_look() {
  std::byte* const from = pages_.data();
  for (std::uint64_t i = 1; !stopping_; ++i) {
    std::memcpy(from, &i, sizeof(i));
    {
      const std::scoped_lock lock(mutex_);
      writing_since_ = Clock::now();
    }
    const double us = pair_.write_one(*region_, *region_, kRegion, options_.bytes) / 1000;
    if (std::memcmp(from, pages_.data() + kRegion, options_.bytes) != 0) {
      note_error("a WRITE completed, but its bytes aren't there");
    }
    const std::scoped_lock lock(mutex_);
    writing_since_ = Clock::time_point::max();
    ++phase_.writes;
    phase_.write_us_max = std::max(phase_.write_us_max, us);
    if (phase_.write_us.size() < kLatenciesMax) {
      phase_.write_us.push_back(us);
    }
  }
}

// Makes a protection domain, a queue, a region and a queue pair; false: one was refused.
bool Victim::life_of_objects() {
  ibv_pd* const pd = ibv_alloc_pd(card_.context());
  ibv_comp_channel* const channel =
      pd != nullptr ? ibv_create_comp_channel(card_.context()) : nullptr;
  ibv_cq* const cq =
      channel != nullptr ? ibv_create_cq(card_.context(), 16, nullptr, channel, 0) : nullptr;
  std::vector<std::byte> memory(4096);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* const region =
      cq != nullptr ? ibv_reg_mr(pd, memory.data(), memory.size(), kAccess) : nullptr;
  ibv_qp* qp = nullptr;
  if (region != nullptr) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 4;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &wanted);
  }
  if (qp == nullptr) {
    note_error(std::string("an object can't be made: ") + std::strerror(errno));
  }
  const bool made = qp != nullptr;
  bool destroyed = qp == nullptr || ibv_destroy_qp(qp) == 0;
  destroyed = (region == nullptr || ibv_dereg_mr(region) == 0) && destroyed;
  destroyed = (cq == nullptr || ibv_destroy_cq(cq) == 0) && destroyed;
  destroyed = (channel == nullptr || ibv_destroy_comp_channel(channel) == 0) && destroyed;
  destroyed = (pd == nullptr || ibv_dealloc_pd(pd) == 0) && destroyed;
  if (!destroyed) {
    note_error("an object can't be destroyed");
  }
  return made;
}

// Pages that are populated on demand and then unmapped, which the shim announces to the daemon.
void Victim::life_of_pages() {
  const Pages pages(kPagesBytes);
  const auto region = card_.register_range(pages.data(), pages.length(), true);
  ibv_sge all{.addr = reinterpret_cast<std::uintptr_t>(pages.data()),
              .length = static_cast<std::uint32_t>(kPagesBytes),
              .lkey = region->lkey};
  if (ibv_advise_mr(card_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &all,
                    1) != 0) {
    note_error("pages aren't populated");
  }
}

void Victim::make_and_destroy() {
  while (!stopping_) {
    const auto start = Clock::now();
    {
      const std::scoped_lock lock(mutex_);
      asking_since_ = start;
    }
    life_of_objects();
    if (options_.on_demand) {
      life_of_pages();
    }
    {
      const std::scoped_lock lock(mutex_);
      asking_since_ = Clock::time_point::max();
      ++phase_.answers;
      phase_.answer_ms_max = std::max(phase_.answer_ms_max, milliseconds_since(start));
    }
    std::this_thread::sleep_for(kBetweenAnswers);
  }
}

Phase Victim::end_phase() {
  const std::scoped_lock lock(mutex_);
  if (asking_since_ != Clock::time_point::max()) {  // an answer that is still pending
    phase_.answer_ms_max = std::max(phase_.answer_ms_max, milliseconds_since(asking_since_));
  }
  if (writing_since_ != Clock::time_point::max()) {
    phase_.write_us_max = std::max(phase_.write_us_max, 1000 * milliseconds_since(writing_since_));
  }
  return std::exchange(phase_, Phase{});
}

void print(const std::string& name, Phase phase) {
  std::sort(phase.write_us.begin(), phase.write_us.end());
  const auto at = [&phase](double part) {
    const auto index = static_cast<std::size_t>(part * static_cast<double>(phase.write_us.size()));
    return phase.write_us.empty() ? 0.0
                                  : phase.write_us[std::min(index, phase.write_us.size() - 1)];
  };
  std::string errors;
  for (const std::string& error : phase.errors) {
    errors += (errors.empty() ? "\"" : ", \"") + error + "\"";
  }
  std::printf(
      "{\"phase\": \"%s\", \"writes\": %llu, \"write_p50_us\": %.1f, \"write_p99_us\": %.1f, "
      "\"write_max_us\": %.1f, "
      "\"answers\": %llu, \"answer_max_ms\": %.1f, \"errors\": [%s]}\n",
      name.c_str(), static_cast<unsigned long long>(phase.writes), at(0.5), at(0.99),
      phase.write_us_max, static_cast<unsigned long long>(phase.answers), phase.answer_ms_max,
      errors.c_str());
  std::fflush(stdout);
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--connected" && i + 2 < argc) {
      options.connected = std::atoi(argv[++i]);
      options.connected_to = argv[++i];
    } else if (word == "--on-demand") {
      options.on_demand = true;
    } else if (word == "--bytes" && i + 1 < argc) {
      options.bytes = static_cast<std::uint32_t>(std::atoi(argv[++i]));
    } else {
      return std::nullopt;
    }
  }
  return options.bytes >= sizeof(std::uint64_t) && options.bytes <= kRegion ? std::optional(options)
                                                                            : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: victim [--connected N ADDRESS] [--bytes N] [--on-demand]\n");
    return 2;
  }
  Victim victim(*options);
  std::optional<uroce::hostile::ConnectedQps> connected;
  if (options->connected_to != nullptr) {
    connected.emplace(victim.card(), options->connected, options->connected_to);
  }
  std::thread writer(&Victim::write_and_look, &victim);
  std::thread maker(&Victim::make_and_destroy, &victim);
  std::puts("begun");
  std::fflush(stdout);
  for (std::string name; std::getline(std::cin, name);) {
    print(name, victim.end_phase());
  }
  victim.stop();
  writer.join();
  maker.join();
  return 0;
}
