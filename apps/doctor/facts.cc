#include "apps/doctor/facts.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "base/sockets/socket_path.h"
#include "base/version.h"
#include "control/reports/status_client.h"

namespace uroce::doctor {
namespace {

DaemonFacts ask_daemon() {
  DaemonFacts facts;
  facts.socket = program_socket();
  const auto text = control::fetch_status(facts.socket);
  if (!text) {
    facts.error = text.error().code;
    facts.refusal = text.error().message;
    return facts;
  }
  facts.report = nlohmann::ordered_json::parse(*text, nullptr, false);
  return facts;
}

// As the loader finds it with this environment.
std::string loaded_library() {
  void* const handle = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return {};
  }
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

}  // namespace

Facts gather(const std::string& our_library) {
  Facts facts;
  facts.version = kReleaseVersion;
  facts.root = ::geteuid() == 0;
  facts.daemon = ask_daemon();
  facts.library = {.loaded = loaded_library(), .ours = our_library};
  facts.kernel = gather_kernel();
  return facts;
}

}  // namespace uroce::doctor
