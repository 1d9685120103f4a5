// What this machine gives a process, and what the daemon needs of it for itself.

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "shares/cgroup_memory.h"
#include "shares/shares.h"

namespace uroce {
namespace {

constexpr std::uint64_t kMapCountDefault = 65'530;  // the kernel's own default
// Of what is left after the start, one part of so many, and at least so much, is for what the
// daemon does itself: threads, heaps, sockets, descriptors that are on their way to programs.
constexpr std::uint64_t kReservePart = 16;
constexpr std::uint64_t kReserveMin = 64;
// Of the memory that the daemon may have. Notes on memory that is paged on demand are a 3,000th of
// it, or as much as a page of it where a program touches one here and one there.
constexpr std::uint64_t kQueuesPart = 2;
constexpr std::uint64_t kNotesPart = 16;

std::uint64_t descriptors_in_use() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) {
    return 0;
  }
  std::uint64_t count = 0;
  while (::readdir(folder) != nullptr) {
    ++count;
  }
  ::closedir(folder);
  return count;
}

std::uint64_t mappings_in_use() {
  std::FILE* const file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) {
    return 0;
  }
  std::uint64_t count = 0;
  for (int letter = std::getc(file); letter != EOF; letter = std::getc(file)) {
    count += letter == '\n' ? 1 : 0;
  }
  std::fclose(file);
  return count;
}

// The machine's, or what a container or a service may have of it.
std::uint64_t memory_of_a_process() {
  return std::min(static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                  cgroup_memory());
}

std::uint64_t left_for_users(std::uint64_t most, std::uint64_t in_use) {
  const std::uint64_t left = most > in_use ? most - in_use : 0;
  const std::uint64_t reserve = std::max(left / kReservePart, kReserveMin);
  return left > reserve ? left - reserve : 0;
}

}  // namespace

std::uint64_t mappings_of_a_process() {
  std::uint64_t count = kMapCountDefault;
  if (std::FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re")) {
    unsigned long long read = 0;
    count = std::fscanf(file, "%llu", &read) == 1 ? read : kMapCountDefault;
    std::fclose(file);
  }
  return count;
}

Amounts maxima_of_this_machine() {
  Amounts maxima;
  std::transform(std::begin(kLimits), std::end(kLimits), maxima.begin(),
                 [](const LimitFacts& facts) { return facts.of_daemon; });
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    maxima[Limit::kDescriptors] = left_for_users(
        std::min<std::uint64_t>(descriptors.rlim_cur, facts_of(Limit::kDescriptors).of_daemon),
        descriptors_in_use());
  }
  maxima[Limit::kMappings] = left_for_users(mappings_of_a_process(), mappings_in_use());
  const std::uint64_t memory = memory_of_a_process();
  std::uint64_t& queues = maxima[Limit::kQueueMemory];
  queues = std::min(queues, memory / kQueuesPart);
  std::uint64_t& notes = maxima[Limit::kPagingMemory];
  notes = std::min(notes, memory / kNotesPart);
  return maxima;
}

}  // namespace uroce
