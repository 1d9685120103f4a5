// Verbs in a program that has used up its memory.

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <ostream>
#include <semaphore>
#include <string>
#include <thread>

#include "base/sanitized.h"
#include "tests/unit/address_space.h"
#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

constexpr std::size_t kRegion = std::size_t{64} << 10U;
constexpr std::size_t kRegions = 16;

void use_up_memory() {
  const rlimit limit{.rlim_cur = address_space(), .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
  for (std::size_t bytes = std::size_t{1} << 20U; bytes >= sizeof(void*); bytes /= 2) {
    for (;;) {
      void* volatile const lost = std::malloc(bytes);  // NOLINT: as wanted
      if (lost == nullptr) {
        break;
      }
    }
  }
}

// In a process of its own. 0, or the step that failed.
int register_without_memory() {
  FakeDaemon daemon;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  auto* const memory = static_cast<std::byte*>(::mmap(
      nullptr, kRegions * kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ibv_mr* const first = ibv_reg_mr(pd, memory, kRegion, IBV_ACCESS_LOCAL_WRITE);
  if (first == nullptr) {
    return 1;
  }
  use_up_memory();
  std::size_t refused = 0;
  for (std::size_t i = 1; i < kRegions; ++i) {
    if (ibv_reg_mr(pd, memory + i * kRegion, kRegion, IBV_ACCESS_LOCAL_WRITE) == nullptr) {
      if (errno != ENOMEM) {
        return 2;
      }
      ++refused;
    }
  }
  return refused == 0 ? 3 : 0;
}

// In a process of its own. 0, or the step that failed.
int begin_without_memory() {
  const FakeDaemon daemon;
  ibv_device** const list = ibv_get_device_list(nullptr);
  use_up_memory();
  errno = 0;
  if (ibv_get_device_list(nullptr) != nullptr || errno != ENOMEM) {
    return 1;
  }
  errno = 0;
  return ibv_open_device(list[0]) == nullptr && errno == ENOMEM ? 0 : 2;
}

// How a program of two threads, each of which has memory registered already, registers a region of
// many pieces when it has used up its memory.
struct Shortage {
  const char* name;
  std::size_t pieces;
  bool in_the_second_thread;
  bool beyond_the_limit;  // not only at it: what is unmapped can't be mapped again
};

void PrintTo(const Shortage& shortage, std::ostream* out) { *out << shortage.name; }

// Pages of a file that adjoin in memory only.
std::byte* map_pieces(std::size_t pieces) {
  constexpr std::size_t kPage = 4096;
  const int file = ::memfd_create("pieces", MFD_CLOEXEC);
  const std::size_t bytes = pieces * kPage;
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return nullptr;
  }
  for (std::size_t i = 1; i < pieces; i += 2) {
    ::mmap(memory + i * kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
           static_cast<off_t>((pieces - i) * kPage));
  }
  return memory;
}

// In a process of its own. 0, or the step that failed.
int register_pieces(const Shortage& shortage) {
  FakeDaemon daemon;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  std::byte* const pieces = map_pieces(shortage.pieces);
  std::byte* const regions = map_pieces(4);
  int result = 0;
  const auto run_out = [&] {
    ibv_mr* const mine = ibv_reg_mr(pd, regions, kRegion / 16, IBV_ACCESS_LOCAL_WRITE);
    if (mine == nullptr) {
      result = 1;
      return;
    }
    use_up_memory();
    if (shortage.beyond_the_limit) {
      const rlimit less{.rlim_cur = address_space() / 2, .rlim_max = RLIM_INFINITY};
      ::setrlimit(RLIMIT_AS, &less);
    }
    ibv_dereg_mr(mine);
    errno = 0;
    const ibv_mr* const region =
        ibv_reg_mr(pd, pieces, shortage.pieces * 4096, IBV_ACCESS_LOCAL_WRITE);
    result = region == nullptr && errno == ENOMEM ? 0 : 2;
  };
  std::binary_semaphore first_is_done{0};
  std::binary_semaphore end{0};
  std::thread first([&] {
    if (ibv_reg_mr(pd, regions + 8192, 8192, IBV_ACCESS_LOCAL_WRITE) == nullptr) {
      result = 3;
    }
    if (!shortage.in_the_second_thread) {
      run_out();
    }
    first_is_done.release();
    end.acquire();  // its heap is its own till then
  });
  std::thread second([&] {
    first_is_done.acquire();
    if (shortage.in_the_second_thread) {
      run_out();
    }
    end.release();
  });
  first.join();
  second.join();
  return result;
}

class NoMemoryDeathTest : public testing::TestWithParam<Shortage> {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers need more address space than a limit leaves";
    }
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
};

TEST_F(NoMemoryDeathTest, RegistrationsAreRefused) {
  EXPECT_EXIT(_exit(register_without_memory()), testing::ExitedWithCode(0), "");
}

TEST_F(NoMemoryDeathTest, NoDeviceIsListedOrOpened) {
  EXPECT_EXIT(_exit(begin_without_memory()), testing::ExitedWithCode(0), "");
}

TEST_P(NoMemoryDeathTest, ARegionOfManyPiecesIsRefused) {
  EXPECT_EXIT(_exit(register_pieces(GetParam())), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(All, NoMemoryDeathTest,
                         testing::Values(Shortage{"few", 64, false, false},
                                         Shortage{"few_elsewhere", 64, true, false},
                                         Shortage{"few_beyond", 64, true, true},
                                         Shortage{"many", 6'000, false, false},
                                         Shortage{"many_elsewhere", 6'000, true, false},
                                         Shortage{"many_beyond", 6'000, false, true}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace uroce::test
