// The cost and savings of on-demand paging, as a program sees them: ordinary verbs calls against a
// daemon of the benchmark's own, on its loopback, all in one run.
//
//   build/tests/bench/odp_bench [--json] [--brief] [--daemon PATH]
//
// --brief does a tenth, to check that it runs. The keys of --json are those of docs/odp.md.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/bench/parts/card.h"

namespace uroce::bench {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMiB = 1U << 20U;
constexpr std::size_t kGiB = 1U << 30U;
constexpr std::uint32_t kSmall = 8;
constexpr std::uint32_t kLarge = 64 * 1024;

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

struct Figure {
  const char* key;
  const char* unit;
  double value;
};

// How many repetitions of each measurement.
struct Scale {
  std::size_t regions = 10'000;
  std::size_t faults = 20'000;
  std::size_t pass_bytes = kGiB;
  int rounds = 9;
  int long_rounds = 3;  // of measurements that take a second
  double round_us = 100'000;

  static Scale brief() {
    return {.regions = 1'000,
            .faults = 1'000,
            .pass_bytes = kGiB / 16,
            .rounds = 1,
            .long_rounds = 1,
            .round_us = 20'000};
  }
};

class OdpBench {
 public:
  explicit OdpBench(const Scale& scale) : scale_(scale) {}

  std::vector<Figure> run() {
    many_regions();
    large_region();
    fault_penalty();
    resident();
    bystander();
    first_pass();
    second_registration();
    return figures_;
  }

 private:
  void note(const char* key, const char* unit, double value) {
    figures_.push_back({key, unit, value});
  }

  // The medians of two measurements that alternate.
  template <typename One, typename Other>
  void note_in_turns(int rounds, const char* unit, const char* one_key, One one,
                     const char* other_key, Other other) {
    std::vector<double> ones;
    std::vector<double> others;
    for (int round = 0; round < rounds; ++round) {
      ones.push_back(one());
      others.push_back(other());
    }
    note(one_key, unit, quantile(ones, 0.5));
    note(other_key, unit, quantile(others, 0.5));
  }

  // Milliseconds to deregister many regions of 2 MiB. They share a few buffers: pinned separately,
  // they would take 20 GiB of memory.
  double deregister_many(bool on_demand) {
    constexpr std::size_t kRegion = 2 * kMiB;
    constexpr std::size_t kBuffers = 64;
    const Pages memory(kBuffers * kRegion);
    std::vector<RegionHandle> regions;
    for (std::size_t i = 0; i < scale_.regions; ++i) {
      regions.push_back(
          card_.register_range(memory.data() + i % kBuffers * kRegion, kRegion, on_demand));
    }
    const auto start = Clock::now();
    regions.clear();
    return us_since(start) / 1000;
  }

  void many_regions() {
    note_in_turns(
        scale_.rounds, "ms", "dereg_10k_odp_ms", [this] { return deregister_many(true); },
        "dereg_10k_pinned_ms", [this] { return deregister_many(false); });
  }

  void large_region() {
    const Pages memory(64 * kGiB);
    std::vector<double> times;
    for (int round = 0; round < scale_.rounds; ++round) {
      const auto start = Clock::now();
      const RegionHandle region = card_.register_range(memory.data(), memory.length(), true);
      times.push_back(us_since(start));
    }
    note("reg_64g_odp_us", "us", quantile(times, 0.5));
  }

  // A WRITE to an untouched page, and another one to the same page.
  void fault_penalty() {
    const Pages memory(scale_.faults * kPage);
    const RegionHandle region = card_.register_range(memory.data(), memory.length(), true);
    BenchPair pair(card_);
    std::vector<double> faulting;
    std::vector<double> resident;
    for (std::size_t i = 0; i < scale_.faults; ++i) {
      faulting.push_back(pair.write_one(*source_region_, *region, i * kPage, kSmall));
      resident.push_back(pair.write_one(*source_region_, *region, i * kPage, kSmall));
    }
    const auto penalty_us = [&](double part) {
      return (quantile(faulting, part) - quantile(resident, part)) / 1000;
    };
    note("fault_penalty_us_median", "us", penalty_us(0.5));
    note("fault_penalty_us_p99", "us", penalty_us(0.99));
  }

  // Bytes per microsecond of large WRITEs into a region, over and over.
  double stream(BenchPair& pair, const ibv_mr& to) {
    std::size_t offset = 0;
    std::size_t done = 0;
    const auto start = Clock::now();
    while (us_since(start) < scale_.round_us) {
      while (pair.outstanding() < BenchPair::kDepth) {
        pair.post_write(*source_region_, 0, to, offset, kLarge);
        offset = (offset + kLarge) % to.length;
      }
      done += pair.reap();
    }
    const double rate = static_cast<double>(done * kLarge) / us_since(start);
    pair.drain();
    return rate;
  }

  // Both regions cover the same memory, and alternate: its physical placement, and so how much of
  // it the caches hold, is chance. Each round has new memory.
  double resident_of_pinned(BenchPair& pair) {
    const Pages pages(16 * kMiB);
    std::memset(pages.data(), 1, pages.length());
    const RegionHandle pinned = card_.register_range(pages.data(), pages.length(), false);
    const RegionHandle on_demand = card_.register_range(pages.data(), pages.length(), true);
    (void)stream(pair, *on_demand);  // makes all pages resident
    double of_pinned = stream(pair, *pinned);
    const double of_on_demand = stream(pair, *on_demand) + stream(pair, *on_demand);
    of_pinned += stream(pair, *pinned);
    return of_on_demand / of_pinned;
  }

  void resident() {
    BenchPair pair(card_);
    std::vector<double> ratios;
    for (int round = 0; round < scale_.rounds; ++round) {
      ratios.push_back(resident_of_pinned(pair));
    }
    note("resident_odp_of_pinned", "", quantile(ratios, 0.5));
  }

  struct Beside {
    double rate;      // bytes a microsecond
    double other_us;  // of each message
  };
  // Throughput of one pair while another sends one small message after another, each to the next
  // page of `pages`.
  Beside stream_beside(BenchPair& pair, BenchPair& other, const ibv_mr& pages) {
    std::size_t offset = 0;
    std::size_t page = 0;
    std::size_t done = 0;
    const auto start = Clock::now();
    while (us_since(start) < scale_.round_us) {
      while (pair.outstanding() < BenchPair::kDepth) {
        pair.post_write(*source_region_, 0, *source_region_, kLarge + offset, kLarge);
        offset = (offset + kLarge) % (source_.length() - kLarge);
      }
      if (other.outstanding() == 0) {
        other.post_write(*source_region_, 0, pages, page * kPage % pages.length, kSmall);
        ++page;
      }
      done += pair.reap();
      other.reap();
    }
    const double time_us = us_since(start);
    pair.drain();
    other.drain();
    return {.rate = static_cast<double>(done * kLarge) / time_us,
            .other_us = time_us / static_cast<double>(page)};
  }

  void bystander() {
    BenchPair bystander(card_);
    BenchPair faulting(card_);
    std::vector<double> ratios;
    std::vector<double> times;
    for (int round = 0; round < scale_.rounds; ++round) {
      const Pages untouched(256 * kMiB);  // more pages than there are messages in a round
      const RegionHandle fresh = card_.register_range(untouched.data(), untouched.length(), true);
      const Beside alone = stream_beside(bystander, faulting, *source_region_);
      const Beside beside = stream_beside(bystander, faulting, *fresh);
      ratios.push_back(beside.rate / alone.rate);
      times.push_back(beside.other_us);
    }
    note("bystander_of_alone", "", quantile(ratios, 0.5));
    note("faulting_beside_us", "us", quantile(times, 0.5));
  }

  double pass(bool prefetched) {
    const Pages memory(scale_.pass_bytes);
    const RegionHandle region = card_.register_range(memory.data(), memory.length(), true);
    BenchPair pair(card_);
    const auto start = Clock::now();
    if (prefetched) {
      ibv_sge all{.addr = reinterpret_cast<std::uintptr_t>(memory.data()),
                  .length = static_cast<std::uint32_t>(memory.length()),
                  .lkey = region->lkey};
      UROCE_CHECK(ibv_advise_mr(card_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &all, 1) == 0);
    }
    for (std::size_t at = 0; at < memory.length();) {
      while (pair.outstanding() < BenchPair::kDepth && at < memory.length()) {
        pair.post_write(*source_region_, 0, *region, at, kLarge);
        at += kLarge;
      }
      pair.reap();
    }
    pair.drain();
    return us_since(start) / 1000;
  }

  void first_pass() {
    note_in_turns(
        scale_.long_rounds, "ms", "first_pass_1g_ms", [this] { return pass(false); },
        "first_pass_1g_prefetched_ms", [this] { return pass(true); });
  }

  void second_registration() {
    const Pages memory(16 * kMiB);
    std::memset(memory.data(), 1, memory.length());
    card_.register_range(memory.data(), memory.length(), false).reset();
    std::vector<double> times;
    for (int round = 0; round < 100; ++round) {
      const auto start = Clock::now();
      const RegionHandle region = card_.register_range(memory.data(), memory.length(), false);
      times.push_back(us_since(start));
    }
    note("reregister_16m_us", "us", quantile(times, 0.5));
  }

  Scale scale_;
  BenchCard card_;
  Pages source_{kMiB};
  RegionHandle source_region_{card_.register_range(source_.data(), source_.length(), false)};
  std::vector<Figure> figures_;
};

void print(const std::vector<Figure>& figures, bool json) {
  const char* separator = "{";
  for (const Figure& figure : figures) {
    if (json) {
      std::printf("%s\"%s\": %.3f", separator, figure.key, figure.value);
      separator = ", ";
    } else {
      std::printf("%-28s %12.3f %s\n", figure.key, figure.value, figure.unit);
    }
  }
  if (json) {
    std::printf("}\n");
  }
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using uroce::bench::Scale;
  bool json = false;
  Scale scale;
  // The path in the build tree, relative to this program.
  std::string daemon =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../../apps/uroced";
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      json = true;
    } else if (flag == "--brief") {
      scale = Scale::brief();
    } else if (flag == "--daemon" && i + 1 < argc) {
      daemon = argv[++i];
    } else {
      std::fprintf(stderr, "usage: odp_bench [--json] [--brief] [--daemon PATH]\n");
      return 2;
    }
  }
  const uroce::bench::BenchDaemon running(daemon);
  uroce::bench::print(uroce::bench::OdpBench(scale).run(), json);
  return 0;
}
