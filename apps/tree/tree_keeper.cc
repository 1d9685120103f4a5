#include "apps/tree/tree_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "abi/command_records.h"
#include "apps/tree/netlink_answers.h"
#include "base/check.h"
#include "base/sockets/private_folder.h"
#include "base/sockets/socket_path.h"
#include "base/system_error.h"
#include "base/time/monotonic_clock.h"
#include "base/unique_fd.h"
#include "control/reports/status_client.h"

namespace uroce {
namespace {

constexpr Duration kPeriod = kNanosecondsPerSecond;
constexpr Duration kShareOfTime = 20;  // the daemon is asked for one of so many seconds
constexpr mode_t kNotForOthersToWrite = 022;

struct Knowledge {
  nlohmann::ordered_json report;
  std::vector<CardView> cards;
};

Result<Knowledge> ask(const std::string& socket, abi::Command report) {
  const auto text = control::fetch_status(socket, report);
  if (!text) {
    return text.error();
  }
  Knowledge known{.report = nlohmann::ordered_json::parse(*text, nullptr, false), .cards = {}};
  auto cards = card_views(known.report);
  if (!cards) {
    return cards.error();
  }
  known.cards = std::move(*cards);
  return known;
}

std::string netlink_socket(const std::string& folder) { return folder + "/netlink"; }

// For descriptors that the parent has, and for its terminal: who waits for their ends mustn't wait
// for us.
void close_all_but(std::array<int, 4> kept) {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(nothing, standard);
  }
  std::sort(kept.begin(), kept.end());
  unsigned begin = STDERR_FILENO + 1;
  for (const int one : kept) {
    if (one < 0) {
      continue;
    }
    const auto descriptor = static_cast<unsigned>(one);
    if (descriptor > begin) {
      ::syscall(SYS_close_range, begin, descriptor - 1, 0);
    }
    begin = descriptor + 1;
  }
  ::syscall(SYS_close_range, begin, ~0U, 0);
}

// Who ends all processes of a service means the command. The keeper ends after it, and only then
// can it remove the tree.
void block_ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT}) {
    sigaddset(&signals, signal);
  }
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

void remove_folder(const std::string& folder) {
  if (folder != private_folder()) {
    ::rmdir(folder.c_str());
  }
}

}  // namespace

Result<TreeKeeper> TreeKeeper::make(const std::string& socket, const std::string& folder) {
  auto tree = ServedTree::make(folder);
  if (!tree) {
    return tree.error();
  }
  auto netlink = NetlinkServer::listen(netlink_socket(folder));
  if (!netlink) {
    tree->remove();
    return netlink.error();
  }
  TreeKeeper keeper(socket, std::move(*tree), std::move(*netlink));
  if (Status done = keeper.refresh(); !done) {
    keeper.remove();
    return done.error();
  }
  return keeper;
}

void TreeKeeper::remove() {
  ::unlink(netlink_socket(tree_.folder()).c_str());
  tree_.remove();
}

// While no daemon answers, its cards have no link.
Status TreeKeeper::refresh() {
  auto known = ask(socket_, abi::Command::kDeviceStatus);
  if (known) {
    last_ = std::move(known->cards);
  }
  for (CardView& card : last_) {
    if (!known) {
      card.state = CardView::kDown;
      card.phys_state = CardView::kPolling;
    }
  }
  const Status written = tree_.update(tree_contents(last_));
  return known ? written : Status(known.error());
}

// Of a daemon that is gone: there are no cards.
std::vector<std::string> TreeKeeper::answer(std::string_view question) const {
  const auto known = ask(socket_, abi::Command::kObjects);
  const Knowledge none;
  const Knowledge& told = known ? *known : none;
  return answer_netlink(question, {.cards = told.cards, .report = told.report});
}

void TreeKeeper::keep(int end) {
  pollfd watched[] = {{.fd = end, .events = POLLIN, .revents = 0},
                      {.fd = netlink_.descriptor(), .events = POLLIN, .revents = 0}};
  Time next = monotonic_now() + kPeriod;
  for (;;) {
    const Time now = monotonic_now();
    if (now >= next) {
      (void)refresh();  // one that failed is tried again
      const Time done = monotonic_now();
      next = done + std::max<Duration>(kPeriod, (done - now) * kShareOfTime);
      continue;
    }
    const Duration left = (next - now) / kNanosecondsPerMillisecond + 1;
    if (::poll(watched, 2, static_cast<int>(left)) <= 0) {
      continue;
    }
    if (watched[0].revents != 0) {
      return;
    }
    netlink_.serve([this](std::string_view question) { return answer(question); });
  }
}

Result<RunFolder> start_tree(const std::string& socket, const std::string& folder, int lock) {
  // Another one at each run: programs of an earlier one may still look at theirs.
  auto place = make_run_folder(folder, kTreeFolder);
  if (!place) {
    return place.error();
  }
  const mode_t before = ::umask(kNotForOthersToWrite);
  auto keeper = TreeKeeper::make(socket, place->path);
  ::umask(before);  // the command has it, too
  const auto remove = [&keeper, &place] {
    keeper->remove();
    ::rmdir(place->path.c_str());
  };
  if (!keeper) {
    ::rmdir(place->path.c_str());
    return keeper.error();
  }
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const pid_t child = self.valid() ? ::fork() : -1;
  if (child < 0) {
    remove();
    return system_error("can't start the tree's keeper");
  }
  if (child == 0) {
    ::setsid();
    ::umask(kNotForOthersToWrite);
    block_ending_signals();
    // A grandchild: a program that waits for its children meets none that it didn't make, unless it
    // is the first process of a container, whose child everybody's grandchild becomes.
    if (const pid_t keeping = ::fork(); keeping != 0) {
      ::_exit(keeping > 0 ? 0 : 1);
    }
    close_all_but({self.get(), keeper->netlink_descriptor(), place->lock.get(), lock});
    keeper->keep(self.get());
    remove();
    remove_folder(folder);
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) == child && status != 0) {
    remove();
    return Error{EAGAIN, "can't start the tree's keeper"};
  }
  return place;
}

// Not all may be gone: those of other users are the kernel's to end, after this process. The keeper
// is this user's own, and gone when nobody has the lock.
void end_tree_with_container(RunFolder tree, const std::string& folder) {
  UROCE_CHECK(::getpid() == 1);
  ::kill(-1, SIGKILL);
  tree.lock.reset();
  const UniqueFd place(::open(tree.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  while (::flock(place.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  std::error_code kept;
  std::filesystem::remove_all(tree.path, kept);
  remove_folder(folder);
}

int keep_tree(const std::string& folder) {
  ::umask(kNotForOthersToWrite);  // others may read it
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  const UniqueFd end(::signalfd(-1, &ending, SFD_CLOEXEC));
  auto keeper = TreeKeeper::make(program_socket(), folder);
  if (!keeper || !end.valid()) {
    std::fprintf(stderr, "uroce tree: %s\n",
                 keeper ? "can't create a signalfd" : keeper.error().message.c_str());
    return 1;
  }
  keeper->keep(end.get());
  keeper->remove();
  return 0;
}

}  // namespace uroce
