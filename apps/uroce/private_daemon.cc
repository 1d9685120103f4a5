#include "apps/uroce/private_daemon.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>

#include "apps/run_folder.h"
#include "base/result.h"
#include "base/sockets/private_folder.h"
#include "base/system_error.h"

namespace uroce {
namespace {

constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr const char* kOtherPlaces[] = {"/tmp", "/dev/shm", "/run"};
// What comes behind a folder's path: "/run-PID-NUMBER.sock".
constexpr std::size_t kNameMax = 32;

void say(const std::string& sentence) { std::fprintf(stderr, "uroce run: %s\n", sentence.c_str()); }

bool has_room_for_sockets(const std::string& folder) {
  return folder.size() + kNameMax <= kSocketPathMax && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// Another one at each run; the daemon removes it.
std::string new_socket(const std::string& folder) {
  std::random_device random;
  char name[kNameMax];
  std::snprintf(name, sizeof(name), "/run-%d-%08x.sock", ::getpid(), random());
  return folder + name;
}

[[noreturn]] void become_daemon(const std::string& program, const std::string& socket, int ready,
                                const std::vector<std::string>& port) {
  const std::string number = std::to_string(ready);
  std::vector<std::string> words = {program, "--socket",   socket, "--log-level",
                                    "error", "--ready-fd", number};
  words.insert(words.end(), port.begin(), port.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  say(system_error(("can't run " + program).c_str()).message);
  ::_exit(1);
}

// Where it ended by itself, it has said why.
void say_how_it_ended(int status) {
  if (!WIFSIGNALED(status)) {
    return;
  }
  const int signal = WTERMSIG(status);
  const char* const name = ::sigdescr_np(signal);  // real-time signals have none
  say("its daemon was ended by signal " + std::to_string(signal) + " (" +
      (name != nullptr ? name : "real-time") +
      (signal == SIGKILL ? "), as the kernel does where there is too little memory: raise "
                           "memory.max of the cgroup, or what the container may have"
                         : ")"));
}

}  // namespace

Result<RunFolder> folder_for_sockets() {
  const auto usual = make_private_folder();
  if (usual && has_room_for_sockets(*usual)) {
    return RunFolder{.path = *usual, .lock = {}};
  }
  for (const char* const place : kOtherPlaces) {
    if (auto made = make_run_folder(place, kDaemonFolder)) {
      return made;
    }
  }
  return Error{EROFS,
               (usual ? "no socket can be made in " + *usual : usual.error().message) +
                   ", nor a folder in /tmp, /dev/shm or /run: let XDG_RUNTIME_DIR name a folder of "
                   "yours with mode 0700, and a path of at most " +
                   std::to_string(kSocketPathMax - kNameMax) + " characters"};
}

std::optional<PrivateDaemon> PrivateDaemon::start(const std::string& program,
                                                  const std::vector<std::string>& port) {
  auto folder = folder_for_sockets();
  if (!folder) {
    say(folder.error().message);
    return std::nullopt;
  }
  PrivateDaemon daemon;
  daemon.folder_ = std::move(folder->path);
  daemon.folder_lock_ = std::move(folder->lock);
  daemon.socket_ = new_socket(daemon.folder_);
  int ready[2];
  if (::pipe(ready) != 0) {
    say(system_error("no daemon can be started").message);
    daemon.forget_files();
    return std::nullopt;
  }
  const pid_t parent = ::getpid();
  daemon.pid_ = ::fork();
  if (daemon.pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::setsid();  // Ctrl-C is for the command; the daemon ends after it
    ::close(ready[0]);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    become_daemon(program, daemon.socket_, ready[1], port);
  }
  if (daemon.pid_ < 0) {
    say(system_error("can't start a process for the daemon").message);
  }
  ::close(ready[1]);
  const bool started = daemon.pid_ > 0 && daemon.wait_until_ready(ready[0]);
  ::close(ready[0]);
  if (!started) {
    daemon.forget_files();
    return std::nullopt;
  }
  return daemon;
}

bool PrivateDaemon::wait_until_ready(int ready) {
  char byte = 0;
  ssize_t got = -1;
  do {
    got = ::read(ready, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) {
    return true;
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  say_how_it_ended(status);
  return false;
}

// What one that was killed has left.
void PrivateDaemon::forget_files() const {
  ::unlink(socket_.c_str());
  ::unlink((socket_ + ".lock").c_str());
  if (folder_ != private_folder()) {
    ::rmdir(folder_.c_str());  // the tree's keeper does where it is later (tree_keeper.cc)
  }
}

void PrivateDaemon::on_ended(pid_t process, int status) {
  if (process == pid_) {
    pid_ = -1;
    status_ = status;
  }
}

void PrivateDaemon::end() {
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, &status_, 0);
  }
  say_how_it_ended(status_);
  forget_files();
}

}  // namespace uroce
