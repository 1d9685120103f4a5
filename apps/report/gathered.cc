#include "apps/report/gathered.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "apps/doctor/findings.h"
#include "base/sockets/daemon_peer.h"
#include "base/sockets/record_socket.h"
#include "base/sockets/socket_path.h"
#include "base/unique_fd.h"
#include "base/version.h"
#include "control/reports/status_client.h"

namespace uroce::report {
namespace {

// Of the daemon's configuration file, and of its command line.
constexpr std::size_t kFileBytesMax = 65'536;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  ::gmtime_r(&now, &parts);
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string kernel_text() {
  utsname names{};
  ::uname(&names);
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

// What `whose` could have read itself: what it names may be anybody's.
std::optional<std::string> text_of_file(const std::string& path, const Peer& whose) {
  // Opening a pipe would wait for a writer.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return std::nullopt;
  }
  if (whose.uid != 0 && found.st_uid != whose.uid && (found.st_mode & S_IROTH) == 0) {
    return std::nullopt;
  }
  std::string text(kFileBytesMax, '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + length, text.size() - length);
    if (count <= 0) {
      break;
    }
    length += static_cast<std::size_t>(count);
  }
  text.resize(length);
  return text;
}

// The process that listens at this socket, whatever number it calls itself by; none if it is in
// another process namespace.
Peer daemon_at(const std::string& socket) {
  const auto connection = connect_to_daemon(socket);
  const auto peer = connection ? peer_of(connection->get()) : Result<Peer>(Peer{});
  return peer ? *peer : Peer{};
}

std::vector<std::string> command_line(const Peer& daemon) {
  std::istringstream text(
      text_of_file("/proc/" + std::to_string(daemon.pid) + "/cmdline", daemon).value_or(""));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word, '\0');) {
    words.push_back(word);
  }
  return words;
}

// The file that --config names, as the daemon found it.
Json configuration_of(const Peer& daemon, const std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--config";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool joined = word.starts_with(std::string(kOption) + "=");
    if (!joined && (word != kOption || i + 1 == words.size())) {
      continue;
    }
    const std::string path = joined ? word.substr(kOption.size() + 1) : words[i + 1];
    const std::string process = "/proc/" + std::to_string(daemon.pid);
    const bool absolute = path.starts_with('/');
    auto text = text_of_file(process + (absolute ? "/root" : "/cwd/") + path, daemon);
    if (!text && absolute) {  // whose root only its own user may look at
      text = text_of_file(path, daemon);
    }
    return text ? Json(*text) : Json(nullptr);
  }
  return nullptr;
}

Json parsed(const Result<std::string>& text) {
  Json json = text ? Json::parse(*text, nullptr, false) : Json(nullptr);
  return json.is_object() ? json : Json(nullptr);
}

}  // namespace

Json gather(const std::string& library) {
  const std::string socket = program_socket();
  const doctor::Facts facts = doctor::gather(library);
  const Json status = facts.daemon.report.is_object() ? facts.daemon.report : Json(nullptr);
  const Peer daemon = status.is_object() ? daemon_at(socket) : Peer{};
  const auto words = daemon.pid != 0 ? command_line(daemon) : std::vector<std::string>{};
  return {{"made", now_text()},
          {"tool", std::string("uroce ") + kReleaseVersion},
          {"kernel", kernel_text()},
          {"findings", as_json(examine(facts))},
          {"command_line", words},
          {"configuration", configuration_of(daemon, words)},
          {"limits", parsed(control::fetch_status(socket, abi::Command::kLimits))},
          {"errors", parsed(control::fetch_errors(socket, 0))},
          {"history", parsed(control::fetch_status(socket, abi::Command::kHistory))},
          {"status", status}};
}

}  // namespace uroce::report
