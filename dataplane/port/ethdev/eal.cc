#include "dataplane/port/ethdev/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include "base/journal.h"
#include "dataplane/port/ethdev/runtime_folders.h"
#include "dataplane/port/make_port.h"

namespace uroce {
namespace {

std::atomic<bool> running{false};
UniqueFd folder_lock;  // of our runtime folder, for as long as the EAL runs

// EAL heap memory needed per port: buffers of the largest frames, and rings.
constexpr std::uint64_t kMegabytesPerPort = 192;
constexpr std::uint64_t kMegabytesBase = 64;

bool has_option(const std::vector<std::string>& arguments,
                std::initializer_list<std::string_view> names) {
  return std::any_of(arguments.begin(), arguments.end(), [&names](const std::string& argument) {
    return std::any_of(names.begin(), names.end(), [&argument](std::string_view name) {
      return argument == name || argument.starts_with(std::string(name) + "=") ||
             (name.size() == 2 && argument.starts_with(name));
    });
  });
}

std::uint64_t free_huge_megabytes() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * 2;
}

// "(0-2)@(0,1)": lcores 0 (main) to `workers`, all of them on any processor that this process may
// use. Not pinned: the machine is shared with the programs.
std::string floating_lcores(std::uint32_t workers) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::string lcores = "(0-";
  lcores.append(std::to_string(workers)).append(")@(");
  std::string_view separator;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) {
      lcores.append(separator).append(std::to_string(i));
      separator = ",";
    }
  }
  return lcores.append(")");
}

// Writes lines of DPDK's log to standard error, each with its priority in front, in one piece, so
// that lines of other threads don't come between. DPDK's levels are those of syslog(3), counted
// from 1.
ssize_t write_with_priority(void* /*cookie*/, const char* text, std::size_t length) {
  static bool begins = true;  // a line; the stream has a lock around this
  const int level = static_cast<int>(std::max(rte_log_cur_msg_loglevel(), 1));
  const char* const prefix = line_prefix(std::min(level - 1, LOG_DEBUG));
  for (std::string_view left(text, length); !left.empty();) {
    const std::size_t end = left.find('\n');
    const std::string_view line = left.substr(0, end == left.npos ? end : end + 1);
    std::fprintf(stderr, "%s%.*s", begins ? prefix : "", static_cast<int>(line.size()),
                 line.data());
    begins = line.ends_with('\n');
    left.remove_prefix(line.size());
  }
  return static_cast<ssize_t>(length);
}

// Otherwise the EAL writes to standard error as it is, and to syslog(3) as well.
void log_with_priority() {
  if (!lines_have_priority) {
    return;
  }
  static std::FILE* const log = ::fopencookie(
      nullptr, "w",
      {.read = nullptr, .write = write_with_priority, .seek = nullptr, .close = nullptr});
  if (log != nullptr) {
    std::setvbuf(log, nullptr, _IOLBF, BUFSIZ);
    (void)rte_openlog_stream(log);
  }
}

}  // namespace

std::vector<std::string> eal_arguments(const EalOptions& options) {
  std::vector<std::string> arguments{options.name};
  const auto& extra = options.extra;
  if (!has_option(extra, {"--lcores", "-l", "-c"})) {
    arguments.push_back("--lcores=" + floating_lcores(options.workers));
  }
  bool pci = has_option(extra, {"-a", "--allow", "-b", "--block"});
  for (const std::string& port : options.ports) {
    if (is_pci_address(port)) {
      pci = true;
      arguments.insert(arguments.end(), {"-a", port});
    }
  }
  if (!pci && !has_option(extra, {"--no-pci"})) {
    arguments.emplace_back("--no-pci");
  }
  const std::uint64_t wanted = kMegabytesBase + kMegabytesPerPort * options.ports.size();
  const bool memory_given = has_option(extra, {"--no-huge", "-m", "--socket-mem", "--huge-dir",
                                               "--in-memory", "--huge-unlink", "--proc-type"});
  // Creates no files in hugetlbfs, and shares nothing by accident. Memory in ordinary pages is
  // reserved, not touched; the EAL allows no --in-memory with it.
  if (!memory_given && free_huge_megabytes() >= wanted) {
    // A shared-memory interface can pass only a few segments, which pages of 2 MiB would soon
    // exceed.
    arguments.insert(arguments.end(), {"--in-memory", "--single-file-segments"});
  } else if (!memory_given) {
    arguments.insert(arguments.end(), {"--no-shconf", "--no-huge", "-m", std::to_string(wanted)});
  }
  if (!has_option(extra, {"--file-prefix"})) {
    arguments.push_back("--file-prefix=" + options.name + "-" + std::to_string(getpid()));
  }
  if (!options.telemetry && !has_option(extra, {"--telemetry"})) {
    arguments.emplace_back("--no-telemetry");
  }
  if (!has_option(extra, {"--log-level"})) {
    arguments.emplace_back("--log-level=*:warning");
  }
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

Status start_eal(const EalOptions& options) {
  if (running.load()) {
    return Error{EALREADY, "the EAL runs already"};
  }
  if (Status folder = use_private_runtime_folder(); !folder) {
    return folder;
  }
  // The EAL keeps pointers into these arguments.
  static std::vector<std::string> arguments;
  static std::vector<char*> pointers;
  arguments = eal_arguments(options);
  pointers.clear();
  std::string line;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
    line += (line.empty() ? "" : " ") + argument;
  }
  remove_dead_folders(dpdk_folder(), options.name);
  log_with_priority();
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    const int code = rte_errno != 0 ? rte_errno : EINVAL;
    // Without it, as in a container of systemd-nspawn, the EAL takes itself for broken.
    const bool modules = ::access("/sys/module", F_OK) == 0;
    return Error{code, "DPDK's EAL refused to start (" + std::string(rte_strerror(code)) +
                           ") with: " + line +
                           (modules ? "" : "; it needs /sys/module: mount sysfs at /sys")};
  }
  running.store(true);
  folder_lock = lock_folder(rte_eal_get_runtime_dir());
  return ok();
}

bool eal_is_running() { return running.load(); }

void stop_eal() {
  if (running.exchange(false)) {
    // With --in-memory the EAL makes its runtime folder but doesn't remove it.
    const std::filesystem::path folder = rte_eal_get_runtime_dir();
    rte_eal_cleanup();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    folder_lock.reset();
    remove_dead_folders(folder.parent_path(), "uroce");
  }
}

}  // namespace uroce
