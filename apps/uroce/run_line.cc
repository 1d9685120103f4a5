#include "apps/uroce/run_line.h"

#include <arpa/inet.h>

#include <cerrno>
#include <iterator>

namespace uroce {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kEnd = "--";

bool is_option(const std::string& word) { return word.starts_with('-') && word != kEnd; }

// A prefix length behind it is left to uroced.
bool is_address(const std::string& word) {
  const std::string address = word.substr(0, word.find('/'));
  in6_addr room{};
  return ::inet_pton(AF_INET, address.c_str(), &room) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), &room) == 1;
}

// As it must be written when the command begins at word `command`.
std::string with_end(const Words& words, std::size_t command) {
  std::string line = "uroce run";
  for (std::size_t i = 0; i < words.size(); ++i) {
    line += (i == command ? " -- " : " ") + words[i];
  }
  return line;
}

// The options in front; *next is where they end. False: one of them is none.
bool take_options(const Words& words, std::size_t* next, RunLine* line) {
  RunOptions& options = line->options;
  std::size_t& i = *next;
  for (; i < words.size() && is_option(words[i]); ++i) {
    if (words[i] == "--net") {
      options.network = true;
      if (i + 1 < words.size() && is_address(words[i + 1])) {
        options.address = words[++i];
      }
    } else if (words[i] == "--namespace") {
      options.own_namespace = true;
    } else if (words[i] == "--no-tree") {
      options.tree = false;
    } else if (words[i] == "--help" || words[i] == "-h") {
      line->help = true;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<RunLine> parse_run_line(const Words& words) {
  RunLine line;
  std::size_t next = 0;
  if (!take_options(words, &next, &line)) {
    return Error{EINVAL, "there is no option " + words[next] +
                             "; there are --net [ADDRESS], --namespace and --no-tree, and behind "
                             "them -- and the command"};
  }
  if (line.help) {
    return line;
  }
  if (!line.options.tree && line.options.own_namespace) {
    return Error{EINVAL, "--namespace mounts what --no-tree leaves out: say one of them"};
  }
  if (next < words.size() && words[next] == kEnd) {
    ++next;
  } else if (next != 0 && next < words.size()) {
    if (words[next - 1] == "--net" && next + 1 < words.size() && words[next + 1] == kEnd) {
      return Error{EINVAL, "--net: '" + words[next] + "' isn't an IP address"};
    }
    return Error{EINVAL,
                 "put -- between uroce's options and the command: " + with_end(words, next)};
  }
  line.command.assign(std::next(words.begin(), static_cast<std::ptrdiff_t>(next)), words.end());
  if (line.command.empty()) {
    return Error{EINVAL, "say which command to run, for instance: uroce run -- ibv_devinfo"};
  }
  return line;
}

}  // namespace uroce
