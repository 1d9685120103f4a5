#include "apps/uroce/run.h"

#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>
#include <system_error>

#include "abi/command_records.h"
#include "apps/tree/mount_tree.h"
#include "apps/tree/tree_keeper.h"
#include "apps/uroce/default_route.h"
#include "apps/uroce/private_daemon.h"
#include "base/environment.h"
#include "base/sockets/daemon_peer.h"
#include "base/sockets/private_folder.h"
#include "base/sockets/socket_path.h"
#include "base/system_error.h"
#include "base/tree_variable.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFound = 127;
constexpr int kNotRunnable = 126;
volatile std::sig_atomic_t child_to_signal = 0;

// Where this program lies: build/apps, or the installed bin.
fs::path own_folder() {
  std::error_code failure;
  return fs::read_symlink("/proc/self/exe", failure).parent_path();
}

// The first of the places that exists; empty: none.
fs::path first_existing(std::initializer_list<fs::path> places) {
  for (const fs::path& place : places) {
    std::error_code failure;
    if (fs::exists(place, failure)) {
      return place;
    }
  }
  return {};
}

fs::path find_shim() {
  const fs::path here = own_folder();
  const fs::path shim = first_existing({here / "../verbs_shim/libibverbs.so.1",
                                        here / ".." / UROCE_LIBDIR / "uroce/libibverbs.so.1"});
  std::error_code failure;
  const fs::path canonical = shim.empty() ? shim : fs::weakly_canonical(shim, failure);
  return failure ? shim : canonical;  // some containers refuse calls by which it is looked up
}

fs::path find_daemon() {
  const fs::path here = own_folder();
  return first_existing({here / "uroced", here / "../sbin/uroced"});
}

void put_ahead(const fs::path& shim) {
  std::string path = shim.parent_path().string();
  if (const auto old = environment("LD_LIBRARY_PATH")) {
    path.append(":").append(*old);
  }
  set_environment("LD_LIBRARY_PATH", path);
}

void use_shim(const fs::path& shim, const std::string& socket) {
  put_ahead(shim);
  set_environment(kSocketVariable, socket);
}

// Whether PATH has a file of this name, as far as this user may look. execvp() also reports EACCES
// if it couldn't search one of the folders.
bool is_in_path(const std::string& name) {
  std::istringstream folders(environment("PATH").value_or("/bin:/usr/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code failure;
    if (fs::is_regular_file(fs::path(folder) / name, failure)) {
      return true;
    }
  }
  return false;
}

// Why execvp() failed: ENOENT unless a file was found that can't be run, as in shells.
int why_not_run(const std::string& name, int error) {
  const bool is_path = name.find('/') != std::string::npos;
  return error == EACCES && !is_path && !is_in_path(name) ? ENOENT : error;
}

[[noreturn]] void execute(const std::vector<std::string>& command, const char* who = "uroce run") {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int code = why_not_run(command[0], errno);
  std::fprintf(stderr, "%s: can't run %s: %s\n", who, arguments[0],
               std::generic_category().message(code).c_str());
  ::_exit(code == ENOENT ? kNotFound : kNotRunnable);
}

// Shows the program and what it starts the card's files in /sys and /dev. Without them most
// programs run as well, so a failure is only told. The tree's folder; without a path: there is
// none.
RunFolder show_tree(const fs::path& shim, const std::string& socket,
                    const std::function<Result<RunFolder>()>& folder_to_use) {
  std::string preloaded = (shim.parent_path() / "liburoce_outside.so").string();
  if (::access(preloaded.c_str(), R_OK) != 0) {
    std::fprintf(stderr, "uroce run: /sys shows no card: %s\n",
                 system_error(("can't read the library " + preloaded).c_str()).message.c_str());
    return {};
  }
  if (preloaded.find_first_of(" :") != std::string::npos) {
    std::fprintf(stderr,
                 "uroce run: /sys shows no card: LD_PRELOAD can't name %s (a blank or a colon)\n",
                 preloaded.c_str());
    return {};
  }
  const Result<RunFolder> folder = folder_to_use();
  auto tree = folder ? start_tree(socket, folder->path, folder->lock.get())
                     : Result<RunFolder>(folder.error());
  if (!tree) {
    std::fprintf(stderr, "uroce run: /sys shows no card: %s\n", tree.error().message.c_str());
    if (folder && folder->lock.valid()) {
      ::rmdir(folder->path.c_str());  // made for this only
    }
    return {};
  }
  set_environment(kTreeVariable, tree->path);
  if (const auto old = environment("LD_PRELOAD")) {
    preloaded.append(":").append(*old);
  }
  set_environment("LD_PRELOAD", preloaded);
  return std::move(*tree);
}

// Becomes the command, in a namespace of its own if that was asked for.
[[noreturn]] void become(const std::vector<std::string>& command, const std::string& tree,
                         const RunOptions& options) {
  if (options.own_namespace) {
    const Status entered =
        tree.empty() ? Status(Error{ENOENT, "there is nothing to mount"}) : mount_tree(tree);
    if (!entered) {
      std::fprintf(stderr, "uroce run --namespace: %s\n", entered.error().message.c_str());
      ::_exit(1);
    }
  }
  execute(command);
}

// uroced's flags for the private daemon's port. Empty: it said why on stderr.
std::vector<std::string> private_port(const RunOptions& options) {
  if (!options.network) {
    return {"--port", "loopback", "--ip", "10.0.0.1/24", "--mtu", "4200"};
  }
  if (!options.address.empty()) {
    return {"--port", "udp", "--ip", options.address};
  }
  const std::string interface = default_route_interface();
  if (interface.empty()) {
    std::fprintf(stderr,
                 "uroce run: this machine has no default route, so name the address to use: "
                 "uroce run --net ADDRESS -- COMMAND (`ip address` lists them)\n");
    return {};
  }
  return {"--port", "udp,iface=" + interface};
}

// Nothing: it said why on stderr.
std::optional<PrivateDaemon> start_private_daemon(const std::vector<std::string>& port) {
  const fs::path program = find_daemon();
  if (program.empty()) {
    std::fprintf(stderr, "uroce run: no daemon answers, and uroced isn't beside this program\n");
    return std::nullopt;
  }
  return PrivateDaemon::start(program.string(), port);
}

// What the kernel sends for a terminal, for its keys or because it is closed, goes to the whole
// foreground process group, so the command gets it by itself; only a session's leader is told alone
// of a closed terminal. What another process sends to the group arrives twice, since nothing says
// to whom it was sent. The command has no group of its own: it would be in the terminal's
// background, and a SIGKILL to our group wouldn't reach it.
void forward_signal(int signal, siginfo_t* info, void* /*context*/) {
  const bool by_terminal = info->si_code > 0 && (signal != SIGHUP || ::getsid(0) != ::getpid());
  if (child_to_signal > 0 && !by_terminal) {
    ::kill(child_to_signal, signal);
  }
}

// A signal that is sent to us is meant for the command, as where a daemon answers and the command
// takes our place.
constexpr std::array kForwarded{SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};

void forward_signals(pid_t child) {
  child_to_signal = child;
  struct sigaction action = {};
  action.sa_sigaction = forward_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : kForwarded) {
    ::sigaction(signal, &action, nullptr);
  }
}

// Blocks these signals, from before there is a command until they can be forwarded. Returns the
// mask before.
sigset_t block_forwarded() {
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : kForwarded) {
    sigaddset(&signals, signal);
  }
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  return before;
}

// As process 1, a container's first, we are the parent of every process whose own one has ended,
// and wait for those, too.
int wait_for(pid_t child, PrivateDaemon& daemon) {
  const pid_t whom = ::getpid() == 1 ? -1 : child;
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(whom, &status, 0);
    if (ended == child) {
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (ended > 0) {
      daemon.on_ended(ended, status);
    } else if (errno != EINTR) {
      std::fprintf(stderr, "uroce run: can't get the exit status of the command\n");
      return 1;
    }
  }
}

int run_with_private_daemon(const std::vector<std::string>& command, const fs::path& shim,
                            const RunOptions& options) {
  // Whoever started us may ignore it, and then nobody could be waited for.
  std::signal(SIGCHLD, SIG_DFL);
  const std::vector<std::string> port = private_port(options);
  std::optional<PrivateDaemon> daemon;
  if (!port.empty()) {
    daemon = start_private_daemon(port);
  }
  if (!daemon) {
    return 1;
  }
  use_shim(shim, daemon->socket());
  // Its lock is held here, too: without its keeper, the tree is there for the command all the same.
  RunFolder tree =
      options.tree
          ? show_tree(shim, daemon->socket(),
                      [&daemon] {
                        return Result<RunFolder>(RunFolder{.path = daemon->folder(), .lock = {}});
                      })
          : RunFolder{};
  const sigset_t mask = block_forwarded();
  const pid_t child = ::fork();
  if (child == 0) {
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    become(command, tree.path, options);
  }
  int status = 1;
  if (child > 0) {
    forward_signals(child);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    status = wait_for(child, *daemon);
    child_to_signal = 0;
  } else {
    std::fprintf(stderr, "uroce run: %s\n",
                 system_error("can't start a process for the command").message.c_str());
  }
  daemon->end();
  if (::getpid() == 1 && !tree.path.empty()) {
    end_tree_with_container(std::move(tree), daemon->folder());
  }
  return status;
}

// The command may change its folder. A path that would be too long for a socket stays as it is.
std::string absolute(const std::string& socket) {
  std::error_code failure;
  std::string path = fs::absolute(socket, failure).string();
  return failure || path.size() >= sizeof(sockaddr_un::sun_path) ? socket : path;
}

// Always, since it is another network than that of a daemon the user may have expected.
void tell_of_private_daemon(const std::string& socket, const RunOptions& options) {
  if (environment("UROCE_QUIET").value_or("0") != "0") {
    return;
  }
  std::fprintf(
      stderr, "uroce run: no daemon answers at %s; using a private %s\n",
      places_looked_at(socket).c_str(),
      options.network ? "udp one" : "loopback one, which reaches only what this command starts");
}

}  // namespace

int run_command(const std::vector<std::string>& command, const RunOptions& options) {
  const fs::path shim = find_shim();
  if (shim.empty()) {
    std::fprintf(stderr, "uroce run: %s\n",
                 own_folder().empty()
                     ? "/proc isn't mounted, which says where this program and its library are"
                     : "uroce's libibverbs.so.1 isn't where this program expects it");
    return 1;
  }
  const bool named = environment(kSocketVariable).has_value();
  if (options.network && !options.answering && !named) {
    return run_with_private_daemon(command, shim, options);
  }
  const std::string socket = absolute(program_socket());
  const auto daemon = connect_to_daemon(socket);
  if (daemon) {
    if (options.network && !options.answering) {
      std::fprintf(stderr,
                   "uroce run: a daemon answers at %s, which %s names, so its ports are used, not "
                   "--net's\n",
                   socket.c_str(), kSocketVariable);
    }
    use_shim(shim, socket);
    const RunFolder tree = options.tree ? show_tree(shim, socket, folder_for_sockets) : RunFolder{};
    become(command, tree.path, options);
  }
  // A daemon that doesn't let us in isn't to be replaced by another network.
  if (const int error = daemon.error().code; error != ENOENT && error != ECONNREFUSED) {
    std::fprintf(stderr, "uroce run: %s\n", daemon.error().message.c_str());
    return 1;
  }
  tell_of_private_daemon(socket, options);
  return run_with_private_daemon(command, shim, options);
}

int run_on_card(const std::string& folder, const std::string& file,
                const std::vector<std::string>& arguments, bool network) {
  const fs::path here = own_folder();
  const fs::path program =
      first_existing({here / folder / file, here / ".." / UROCE_LIBEXECDIR / "uroce" / file});
  if (program.empty()) {
    std::fprintf(stderr, "uroce %s: its program isn't where this one expects it\n", folder.c_str());
    return 1;
  }
  std::vector<std::string> command = {program.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (asks_for_help(arguments)) {
    if (const fs::path shim = find_shim(); !shim.empty()) {
      put_ahead(shim);  // the system's library may be missing
    }
    execute(command, ("uroce " + folder).c_str());
  }
  RunOptions options;
  options.network = network;
  options.answering = true;
  options.tree = false;  // it looks for cards by verbs only
  return run_command(command, options);
}

bool asks_for_help(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

std::string own_library() { return find_shim().string(); }

int run_program(const std::string& name, const std::vector<std::string>& arguments) {
  const fs::path here = own_folder();
  const std::string file = "uroce-" + name;
  const fs::path program =
      first_existing({here / name / file, here / ".." / UROCE_LIBEXECDIR / "uroce" / file});
  if (program.empty()) {
    std::fprintf(stderr, "uroce %s: %s isn't where this program expects it\n", name.c_str(),
                 file.c_str());
    return 1;
  }
  std::vector<std::string> command = {program.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  execute(command, ("uroce " + name).c_str());
}

}  // namespace uroce
