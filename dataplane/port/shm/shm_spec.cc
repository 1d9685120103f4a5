#include "dataplane/port/shm/shm_spec.h"

#include <sys/un.h>

#include <cerrno>

namespace uroce {
namespace {

constexpr std::string_view kShm = "shm";
constexpr std::string_view kShmPath = ",path=";

}  // namespace

bool is_shm_spec(std::string_view spec) {
  return spec == kShm || spec.substr(0, kShm.size() + 1) == "shm,";
}

Result<ShmSpec> parse_shm_spec(const std::string& spec) {
  const std::string_view setting = std::string_view(spec).substr(kShm.size());
  ShmSpec parsed;
  if (setting.starts_with(kShmPath)) {
    parsed.path = setting.substr(kShmPath.size());
  }
  if (parsed.path.empty() || parsed.path.find(',') != std::string::npos ||
      parsed.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error{EINVAL, "port " + spec +
                             ": say shm,path=FILE, with the same FILE for both daemons: a socket "
                             "that they make there, of a path of at most " +
                             std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " characters"};
  }
  return parsed;
}

}  // namespace uroce
