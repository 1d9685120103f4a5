#include "verbs_shim/memory/sharing/map_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "base/unique_fd.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kDefault = 65'530;

std::uint64_t read_limit() {
  const UniqueFd file(::open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC));
  char text[32] = {};
  std::uint64_t limit = 0;
  return ::read(file.get(), text, sizeof(text) - 1) > 0 &&
                 std::sscanf(text, "%" SCNu64, &limit) == 1
             ? limit
             : kDefault;
}

}  // namespace

std::uint64_t maps_max() {
  static const std::uint64_t limit = read_limit();
  return limit;
}

}  // namespace uroce::shim
