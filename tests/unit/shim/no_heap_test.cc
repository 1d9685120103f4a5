// Neither registration nor what a program does before ends it: any of their allocations may fail,
// and they are refused. (In a program of its own, whose operator new fails on demand.)

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <utility>

#include "tests/unit/failing_allocations.h"
#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/cm/cm_channels.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

constexpr std::size_t kPage = 4096;

class NoHeap : public VerbsFixture {
 protected:
  // Has each allocation of the call fail in turn. Returns how many these were, and what the call
  // made in the end.
  template <typename Object>
  static std::pair<int, Object*> fail_until_made(const std::function<Object*()>& makes) {
    for (int before = 0;; ++before) {
      until_failure = before;
      errno = 0;
      Object* const made = makes();
      const bool failed = until_failure < 0;
      until_failure = -1;
      if (!failed) {
        EXPECT_NE(made, nullptr) << errno;
        return {before, made};
      }
      EXPECT_EQ(made, nullptr) << before;
      EXPECT_EQ(errno, ENOMEM) << before;
    }
  }
  static int fail_each(const std::function<ibv_mr*()>& registers) {
    const auto [failures, region] = fail_until_made(registers);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    return failures;
  }
  // The same for one that is refused anyhow.
  static void refuse_each(int error, const std::function<ibv_mr*()>& registers) {
    for (int before = 0, failed = 1; failed != 0; ++before) {
      until_failure = before;
      errno = 0;
      EXPECT_EQ(registers(), nullptr);
      EXPECT_TRUE(errno == error || errno == ENOMEM) << errno;
      failed = until_failure < 0 ? 1 : 0;
      until_failure = -1;
    }
  }

  static int lowest_free_descriptor() {
    const int free = ::dup(0);
    ::close(free);
    return free;
  }

  static std::byte* map(std::size_t pages, int protection = PROT_READ | PROT_WRITE) {
    return static_cast<std::byte*>(
        ::mmap(nullptr, pages * kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  // Private pages and those of a file in turn.
  static std::byte* map_pieces(std::size_t pieces) {
    std::byte* const memory = map(pieces);
    const int file = ::memfd_create("pieces", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(pieces * kPage)), 0);
    for (std::size_t i = 1; i < pieces; i += 2) {
      ::mmap(memory + i * kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>((pieces - i) * kPage));
    }
    return memory;
  }
  ibv_mr* reg(std::byte* memory, std::size_t pages) const {
    return ibv_reg_mr(pd, memory, pages * kPage, IBV_ACCESS_LOCAL_WRITE);
  }
};

// The program's first, so with all that is set up once.
TEST_F(NoHeap, ARegistrationIsRefused) {
  std::byte* const memory = map(4);
  EXPECT_GT(fail_each([&] { return reg(memory, 4); }), 1);
}

TEST_F(NoHeap, ARegistrationOfManyPiecesIsRefused) {
  for (const std::size_t pieces : {std::size_t{50}, std::size_t{3'000}}) {
    std::byte* const memory = map_pieces(pieces);
    EXPECT_GT(fail_each([&] { return reg(memory, pieces); }), 3);
  }
}

TEST_F(NoHeap, AReregistrationIsRefused) {
  std::byte* const memory = map_pieces(50);
  ibv_mr* const region = reg(memory, 1);
  ASSERT_NE(region, nullptr);
  int error = -1;
  for (int before = 0; error != 0; ++before) {
    until_failure = before;
    error = ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, 50 * kPage, 0);
    EXPECT_TRUE(error == 0 || errno == ENOMEM) << errno;
    EXPECT_EQ(error == 0, until_failure >= 0);
    until_failure = -1;
  }
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(NoHeap, ListingAndOpeningDevicesIsRefused) {
  const int files = lowest_free_descriptor();
  const auto [failures, list] =
      fail_until_made<ibv_device*>([] { return ibv_get_device_list(nullptr); });
  EXPECT_GT(failures, 2);
  const auto [failures_opening, opened] =
      fail_until_made<ibv_context>([list = list] { return ibv_open_device(list[0]); });
  EXPECT_GT(failures_opening, 2);
  EXPECT_EQ(ibv_close_device(opened), 0);
  ibv_free_device_list(list);
  EXPECT_EQ(lowest_free_descriptor(), files) << "some were left open";
}

TEST_F(NoHeap, AnEventChannelOfLibrdmacmIsRefused) {
  const auto [failures, opened] = fail_until_made<int>([] {
    static int descriptor = -1;
    descriptor = shim::open_cm_channel();
    return descriptor < 0 ? nullptr : &descriptor;
  });
  EXPECT_GT(failures, 3);
  EXPECT_EQ(shim::close_cm_channel(*opened), 0);
}

// Why it can't connect is composed, too.
TEST_F(NoHeap, ListingTheDevicesOfADeadDaemonIsRefusedOrFindsNone) {
  daemon.die();
  for (int before = 0, failed = 1; failed != 0; ++before) {
    until_failure = before;
    errno = 0;
    ibv_device** const list = ibv_get_device_list(nullptr);
    failed = until_failure < 0 ? 1 : 0;
    until_failure = -1;
    EXPECT_TRUE(list != nullptr ? list[0] == nullptr : errno == ENOMEM) << before;
    ibv_free_device_list(list);
  }
}

TEST_F(NoHeap, WhyItIsRefusedNeedsNoMemory) {
  std::byte* const memory = map(2);
  ::munmap(memory + kPage, kPage);
  refuse_each(EFAULT, [&] { return reg(memory, 2); });
  std::byte* const read_only = map(1, PROT_READ);
  refuse_each(EFAULT, [&] { return reg(read_only, 1); });
  refuse_each(EINVAL, [&] { return reg(memory, 0); });
  refuse_each(EOPNOTSUPP,
              [&] { return ibv_reg_dmabuf_mr(pd, 0, kPage, 0, -1, IBV_ACCESS_LOCAL_WRITE); });
  daemon.refuse(abi::Command::kRegMr, EBUSY);
  refuse_each(EBUSY, [&] { return reg(memory, 1); });
}

}  // namespace
}  // namespace uroce::test
