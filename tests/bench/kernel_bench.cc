// What the kernel takes for calls that uroce makes, or avoids for that reason: the figures behind
// choices that docs/ and the folders' READMEs explain. Nothing of uroce runs here. Medians of
// rounds where rounds are cheap; what the kernel refuses to this user is left out.
//
//   build/tests/bench/kernel_bench [--json] [--brief]
//
// --brief does a tenth, to check that it runs.

#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/page.h"
#include "base/time/monotonic_clock.h"
#include "base/unique_fd.h"
#include "tests/bench/parts/figures.h"

namespace uroce::bench {
namespace {

constexpr int kRounds = 9;
constexpr double kNsInUs = 1e3;
constexpr double kNsInMs = 1e6;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Call>
double ns_of(const Call& call) {
  const Time before = monotonic_now();
  call();
  return static_cast<double>(monotonic_now() - before);
}

std::byte* map(std::uint64_t length, int flags, int file) {
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, file, 0);
  UROCE_CHECK(memory != MAP_FAILED);
  return static_cast<std::byte*>(memory);
}

// A process of several threads registers for membarrier(2), in a child, since it can do so once.
double membarrier_ns() {
  auto* const result = reinterpret_cast<double*>(map(kPage, MAP_SHARED | MAP_ANONYMOUS, -1));
  const pid_t child = ::fork();
  UROCE_CHECK(child >= 0);
  if (child == 0) {
    std::thread([] { ::pause(); }).detach();
    *result = ns_of([] {
      if (::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0) != 0) {
        ::_exit(1);
      }
    });
    ::_exit(0);
  }
  int status = 0;
  UROCE_CHECK(::waitpid(child, &status, 0) == child);
  const double ns = status == 0 ? *result : 0;
  ::munmap(result, kPage);
  return ns;
}

void measure_membarrier(Figures* figures) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rounds.push_back(membarrier_ns());
  }
  if (const double ns = median(rounds); ns > 0) {
    figures->note("membarrier_register_ms", ns / kNsInMs);
  }
}

// A userfaultfd that reports what is dropped of the range; invalid if the kernel refuses.
UniqueFd watch_drops(std::byte* memory, std::uint64_t length) {
  UniqueFd watch(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC)));
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EVENT_REMOVE;
  uffdio_register range = {};
  range.range = {.start = reinterpret_cast<std::uintptr_t>(memory), .len = length};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (!watch.valid() || ::ioctl(watch.get(), UFFDIO_API, &api) != 0 ||
      ::ioctl(watch.get(), UFFDIO_REGISTER, &range) != 0) {
    watch.reset();
  }
  return watch;
}

double ns_of_drops(std::byte* memory, std::uint64_t length, int calls) {
  return ns_of([&] {
           for (int i = 0; i < calls; ++i) {
             UROCE_CHECK(::madvise(memory, length, MADV_DONTNEED) == 0);
           }
         }) /
         calls;
}

// madvise(MADV_DONTNEED) alone, and while another thread reads the events of it.
void measure_events(int calls, Figures* figures) {
  constexpr std::uint64_t kBytes = 16 * kPage;
  std::byte* const memory = map(kBytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  const double alone = ns_of_drops(memory, kBytes, calls);
  UniqueFd watch = watch_drops(memory, kBytes);
  if (watch.valid()) {
    std::thread reader([&] {
      uffd_msg event;
      for (int i = 0; i < calls; ++i) {
        UROCE_CHECK(::read(watch.get(), &event, sizeof(event)) == sizeof(event));
      }
    });
    const double watched = ns_of_drops(memory, kBytes, calls);
    reader.join();
    figures->note("userfault_event_us", (watched - alone) / kNsInUs);
  }
  watch.reset();
  ::munmap(memory, kBytes);
}

// Pages of a memfd, as of an arena: populated one by one, then written to for the first time.
void measure_pages(std::uint64_t pages, Figures* figures) {
  const UniqueFd file(::memfd_create("kernel_bench", MFD_CLOEXEC));
  const std::uint64_t length = pages * kPage;
  UROCE_CHECK(file.valid() && ::ftruncate(file.get(), static_cast<off_t>(length)) == 0);
  std::byte* const memory = map(length, MAP_SHARED, file.get());
  std::vector<double> populating, touching;
  for (std::uint64_t at = 0; at < length; at += kPage) {
    populating.push_back(
        ns_of([&] { UROCE_CHECK(::madvise(memory + at, kPage, MADV_POPULATE_WRITE) == 0); }));
    touching.push_back(
        ns_of([&] { *static_cast<volatile std::byte*>(memory + at) = std::byte{1}; }));
  }
  figures->note("populate_page_us", median(populating) / kNsInUs);
  figures->note("first_store_us", median(touching) / kNsInUs);
  // The whole of it is taken away again.
  figures->note("punch_mib_us",
                ns_of([&] {
                  UROCE_CHECK(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                          static_cast<off_t>(length)) == 0);
                }) / kNsInUs /
                    (static_cast<double>(length) / (1U << 20U)));
  ::munmap(memory, length);
}

// A thread that sleeps is woken, and wakes the one that waits for it.
void measure_wake_up(int rounds, Figures* figures) {
  const UniqueFd there(::eventfd(0, EFD_CLOEXEC)), back(::eventfd(0, EFD_CLOEXEC));
  UROCE_CHECK(there.valid() && back.valid());
  std::thread other([&] {
    eventfd_t value = 0;
    for (int i = 0; i < rounds; ++i) {
      UROCE_CHECK(::eventfd_read(there.get(), &value) == 0 && ::eventfd_write(back.get(), 1) == 0);
    }
  });
  std::vector<double> trips;
  for (int i = 0; i < rounds; ++i) {
    ::usleep(200);  // until the other one sleeps
    trips.push_back(ns_of([&] {
      eventfd_t value = 0;
      UROCE_CHECK(::eventfd_write(there.get(), 1) == 0 && ::eventfd_read(back.get(), &value) == 0);
    }));
  }
  other.join();
  figures->note("wake_and_back_us", median(trips) / kNsInUs);
}

// One thread sends itself datagrams of 1,040 bytes, as of a path MTU of 1024, over the loopback
// interface: a call for each `batch`, received coalesced. Gigabytes a second.
double udp_gb_s(std::size_t batch, int calls) {
  constexpr std::size_t kDatagram = 1'040;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  const int segment = kDatagram, coalesced = 1;
  UROCE_CHECK(socket.valid() && ::bind(socket.get(), name, size) == 0 &&
              ::getsockname(socket.get(), name, &size) == 0 &&
              ::connect(socket.get(), name, size) == 0 &&
              ::setsockopt(socket.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)) == 0 &&
              ::setsockopt(socket.get(), SOL_UDP, UDP_GRO, &coalesced, sizeof(coalesced)) == 0);
  std::vector<std::byte> buffer(batch * kDatagram);
  const auto bytes = static_cast<ssize_t>(buffer.size());
  const double ns = ns_of([&] {
    for (int i = 0; i < calls; ++i) {
      UROCE_CHECK(::send(socket.get(), buffer.data(), buffer.size(), 0) == bytes);
      for (ssize_t left = bytes; left > 0;) {
        const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
        UROCE_CHECK(got > 0);
        left -= got;
      }
    }
  });
  return static_cast<double>(bytes) * calls / ns;
}

void measure_batches(int calls, Figures* figures) {
  std::vector<double> of_32, of_62;
  for (int round = 0; round < kRounds; ++round) {
    of_32.push_back(udp_gb_s(32, calls));
    of_62.push_back(udp_gb_s(62, calls));
  }
  figures->note("udp_32_gb_s", median(of_32));
  figures->note("udp_62_gb_s", median(of_62));
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using namespace uroce::bench;  // NOLINT(google-build-using-namespace)
  const int scale = has_flag(argc, argv, "--brief") ? 1 : 10;
  Figures figures;
  measure_membarrier(&figures);
  measure_events(200 * scale, &figures);
  measure_pages(std::uint64_t{13'000} * static_cast<std::uint64_t>(scale), &figures);
  measure_wake_up(100 * scale, &figures);
  measure_batches(200 * scale, &figures);
  figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
