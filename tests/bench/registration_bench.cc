// The cost of registering memory, on both sides: converting a range (first time) and recognising it
// (second time) in the program, mapping it in the daemon, deregistering 10,000 regions, and access
// by copying (/proc/PID/mem) compared with the shared mapping. Also the one-time cost of hooking
// libc's functions, that of the program's own calls before and afterwards, on memory that was never
// registered, and that of fork() beside converted memory. Medians; both sides run in this process.
//
//   build/tests/bench/registration_bench [--json]

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "mmu/copies/copy.h"
#include "mmu/key_table.h"
#include "mmu/pinned/program_memory.h"
#include "shares/shares.h"
#include "verbs_shim/memory/hooks/libc_patch.h"
#include "verbs_shim/memory/pinned/registered_memory.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;
constexpr int kRounds = 5;

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Figure {
  std::string key;
  const char* unit;
  double value;
};

// The program's memory and the daemon that maps it, in one.
class Registrar {
 public:
  std::unique_ptr<Region> map(std::byte* address, std::uint64_t length,
                              const shim::MemoryDescription& description) {
    while (arenas_ == 0) {
      const shim::Arena arena = shim::arena(0);
      UROCE_CHECK(daemon_.add_arena(UniqueFd(::dup(arena.descriptor)), arena.page_size));
      arenas_ = 1;
    }
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    auto region = daemon_.make_region(
        {.pd = 1, .access = kAccess, .address = start, .length = length, .iova = start},
        description.pieces, {},
        ProgramMemory::open(ProgramProcess(::getpid(), ::getuid(), ::getgid()), description.pieces,
                            true));
    UROCE_CHECK(region);
    return std::move(*region);
  }

 private:
  ProgramMemory daemon_{make_private_account()};
  int arenas_ = 0;
};

std::byte* allocate(std::uint64_t length, bool touched) {
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  UROCE_CHECK(memory != MAP_FAILED);
  ::madvise(memory, length, MADV_NOHUGEPAGE);
  if (touched) {
    std::memset(memory, 1, length);
  }
  return static_cast<std::byte*>(memory);
}

shim::MemoryDescription describe(const std::byte* address, std::uint64_t length) {
  auto description =
      shim::describe_memory(reinterpret_cast<std::uintptr_t>(address), length, kAccess);
  UROCE_CHECK(description && description->pieces.front().kind == abi::PieceKind::kArena);
  return std::move(*description);
}

void measure_size(Registrar& registrar, const char* name, std::uint64_t length, bool touched,
                  std::vector<Figure>* figures) {
  std::vector<double> first, second, mapping, again;
  for (int round = 0; round < kRounds; ++round) {
    std::byte* const memory = allocate(length, touched);
    auto start = Clock::now();
    const auto description = describe(memory, length);
    first.push_back(us_since(start));
    start = Clock::now();
    describe(memory, length);
    second.push_back(us_since(start));
    start = Clock::now();
    auto region = registrar.map(memory, length, description);
    mapping.push_back(us_since(start));
    region.reset();
    start = Clock::now();
    region = registrar.map(memory, length, description);
    again.push_back(us_since(start));
    ::munmap(memory, length);
  }
  const std::string key = name;
  figures->push_back({"convert_" + key + "_us", "us", median(first)});
  figures->push_back({"recognise_" + key + "_us", "us", median(second)});
  figures->push_back({"map_" + key + "_us", "us", median(mapping)});
  figures->push_back({"map_again_" + key + "_us", "us", median(again)});
}

// 10,000 keys of 2 MiB each, deregistered one by one while a worker is asleep.
void measure_removal(Registrar& registrar, std::vector<Figure>* figures) {
  constexpr std::uint64_t kBytes = 2U << 20U;
  constexpr std::size_t kRegions = 10'000;
  std::byte* const memory = allocate(kBytes, true);
  const auto description = describe(memory, kBytes);
  Quiescence quiescence;
  quiescence.online(0);
  quiescence.offline(0);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    KeyTable keys(quiescence);
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i < kRegions; ++i) {
      all.push_back(*keys.add(registrar.map(memory, kBytes, description)));
    }
    const auto start = Clock::now();
    for (const std::uint32_t key : all) {
      keys.remove(key);
    }
    rounds.push_back(us_since(start) / 1000);
  }
  figures->push_back({"remove_10k_regions_ms", "ms", median(rounds)});
  ::munmap(memory, kBytes);
}

double ns_per_copy(const Region& region, const Span& span) {
  constexpr int kCopies = 2000;
  std::array<std::byte, 4096> buffer;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < kCopies; ++i) {
      UROCE_CHECK(copy_from(region, span, buffer.data()));
    }
    rounds.push_back(us_since(start) * 1000 / kCopies);
  }
  return median(rounds);
}

// One 4 KiB payload through the mapping, and through /proc/PID/mem.
void measure_copies(Registrar& registrar, std::vector<Figure>* figures) {
  constexpr std::uint64_t kBytes = 4096;
  std::byte* const memory = allocate(kBytes, true);
  auto description = describe(memory, kBytes);
  for (const bool remote : {false, true}) {
    if (remote) {
      description.pieces.front().kind = abi::PieceKind::kProcMem;
    }
    const auto region = registrar.map(memory, kBytes, description);
    Span span;
    UROCE_CHECK(region->translate(region->iova(), kBytes, false, &span) == Access::kGranted);
    figures->push_back(
        {remote ? "copy_4k_slow_ns" : "copy_4k_mapped_ns", "ns", ns_per_copy(*region, span)});
  }
  ::munmap(memory, kBytes);
}

// ns per call, averaged over many calls. The best round: disturbances only add to it.
template <typename Call>
double ns_per_call(Call call) {
  constexpr int kCalls = 500;
  constexpr int kCallRounds = 40;
  double best = 1e9;
  for (int round = 0; round < kCallRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      call();
    }
    best = std::min(best, us_since(start) * 1000 / kCalls);
  }
  return best;
}

// The program's calls for 64 KiB of memory that was never registered: through libc's functions,
// which are hooked by now, and as system calls. `memory` shares no chunk of 2 MiB with registered
// memory; the mappings called near do.
void measure_calls(std::byte* memory, std::vector<Figure>* figures) {
  constexpr std::uint64_t kBytes = 64U << 10U;
  constexpr int kRights = PROT_READ | PROT_WRITE;
  constexpr int kFresh = MAP_PRIVATE | MAP_ANONYMOUS;
  const auto compare = [&](const char* name, auto libc, auto bare) {
    const std::string key = name;
    figures->push_back({key + "_ns", "ns", ns_per_call(libc)});
    figures->push_back({key + "_bare_ns", "ns", ns_per_call(bare)});
  };
  compare(
      "madvise", [&] { ::madvise(memory, kBytes, MADV_DONTNEED); },
      [&] { ::syscall(SYS_madvise, memory, kBytes, MADV_DONTNEED); });
  compare(
      "mmap_over", [&] { ::mmap(memory, kBytes, kRights, kFresh | MAP_FIXED, -1, 0); },
      [&] { ::syscall(SYS_mmap, memory, kBytes, kRights, kFresh | MAP_FIXED, -1, 0); });
  ::munmap(memory, kBytes);
  for (void* const place : {static_cast<void*>(memory), static_cast<void*>(nullptr)}) {
    compare(
        place == nullptr ? "mmap_munmap_near" : "mmap_munmap",
        [&] { ::munmap(::mmap(place, kBytes, kRights, kFresh, -1, 0), kBytes); },
        [&] {
          ::syscall(SYS_munmap, ::syscall(SYS_mmap, place, kBytes, kRights, kFresh, -1, 0), kBytes);
        });
  }
}

// The same madvise for memory that was registered, with one page touched, and for private memory.
void measure_drops(std::byte* converted, std::byte* other, std::vector<Figure>* figures) {
  constexpr std::uint64_t kBytes = 64U << 10U;
  describe(converted, kBytes);
  for (std::byte* const memory : {converted, other}) {
    figures->push_back(
        {memory == converted ? "drop_converted_ns" : "drop_private_ns", "ns", ns_per_call([&] {
           memory[0] = std::byte{1};
           ::madvise(memory, kBytes, MADV_DONTNEED);
         })});
  }
}

// The first registration of the process, besides patching libc.
void measure_beginning(std::vector<Figure>* figures) {
  auto start = Clock::now();
  UROCE_CHECK(shim::patch_libc());
  figures->push_back({"patch_us", "us", us_since(start)});
  std::byte* const memory = allocate(4096, true);
  start = Clock::now();
  describe(memory, 4096);
  figures->push_back({"first_of_all_us", "us", us_since(start)});
  ::munmap(memory, 4096);
}

// fork() beside a quarter of a GiB of converted memory, which the child copies before it returns;
// in milliseconds for each GiB.
double fork_gib_ms() {
  constexpr std::uint64_t kBytes = 256U << 20U;
  constexpr double kParts = 4;
  describe(allocate(kBytes, true), kBytes);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(0);
    }
    rounds.push_back(us_since(start) / 1000 * kParts);
    UROCE_CHECK(child > 0 && ::waitpid(child, nullptr, 0) == child);
  }
  return median(rounds);
}

// In a process of its own, since here the child would copy what the daemon maps, too. REQUIRES:
// nothing is converted yet.
void measure_fork(std::vector<Figure>* figures) {
  void* const shared =
      ::mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  UROCE_CHECK(shared != MAP_FAILED);
  auto* const result = static_cast<double*>(shared);
  const pid_t program = ::fork();
  if (program == 0) {
    *result = fork_gib_ms();
    ::_exit(0);
  }
  int status = 0;
  UROCE_CHECK(program > 0 && ::waitpid(program, &status, 0) == program && status == 0);
  figures->push_back({"fork_gib_ms", "ms", *result});
  ::munmap(shared, sizeof(double));
}

void print(const std::vector<Figure>& figures, bool json) {
  std::fputs(json ? "{" : "", stdout);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const Figure& figure = figures[i];
    if (json) {
      std::printf("%s\"%s\": %.2f", i == 0 ? "" : ", ", figure.key.c_str(), figure.value);
    } else {
      std::printf("%-28s %12.2f %s\n", figure.key.c_str(), figure.value, figure.unit);
    }
  }
  std::fputs(json ? "}\n" : "", stdout);
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using namespace uroce::bench;  // NOLINT(google-build-using-namespace)
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  Registrar registrar;
  std::vector<Figure> figures;
  measure_fork(&figures);
  measure_beginning(&figures);
  // In a chunk of 2 MiB without other memory.
  std::byte* const unrelated = allocate(64U << 20U, false) + (32U << 20U);
  measure_calls(unrelated, &figures);
  measure_drops(allocate(64U << 10U, true), unrelated + (8U << 20U), &figures);
  measure_size(registrar, "4k", 4096, true, &figures);
  measure_size(registrar, "64k", 64U << 10U, true, &figures);
  measure_size(registrar, "1m", 1U << 20U, true, &figures);
  measure_size(registrar, "16m", 16U << 20U, true, &figures);
  measure_size(registrar, "256m", 256U << 20U, true, &figures);
  measure_size(registrar, "1g_untouched", 1U << 30U, false, &figures);
  measure_removal(registrar, &figures);
  measure_copies(registrar, &figures);
  print(figures, json);
}
