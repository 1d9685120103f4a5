// integrity: drives random operations of all kinds and sizes between two processes and verifies
// every byte and every completion. Over reliable connections and XRC nothing may be missing; over
// UC and as datagrams (--transport) what gets lost is counted.
//
//   integrity                        two processes on this machine, over one device
//   integrity --server [--port N]    one side; prints the port it listens on
//   integrity --connect HOST         the other side, which also says how much to do
//
// It is an ordinary verbs program: nothing in it knows uroce but the bar that says how far it has
// come (apps/progress). Read integrity_plan.h first.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "apps/integrity/integrity_disturb.h"
#include "apps/integrity/integrity_link.h"
#include "apps/integrity/integrity_messages.h"
#include "apps/integrity/integrity_plan.h"
#include "apps/integrity/integrity_run.h"
#include "apps/integrity/integrity_verbs.h"

namespace {

using integrity::Card;
using integrity::Limits;
using integrity::Link;
using integrity::MessageCard;
using integrity::MessageLimits;
using integrity::MessageRunner;
using integrity::MessageTotals;
using integrity::Runner;
using integrity::Service;
using integrity::Totals;

constexpr std::uint32_t kQpsMax = 1'024;
constexpr std::uint32_t kSizeMax = 1U << 28U;
constexpr std::uint32_t kMessageQpsMax = 16;
constexpr std::uint32_t kPlanned = UINT32_MAX;  // RC with a plan of what comes where

struct Options {
  bool server = false;
  std::string connect;
  std::uint16_t port = 18'517;
  std::string device;
  int gid_index = 1;
  std::uint8_t timeout_code = integrity::kTimeoutDefault;
  std::uint64_t operations = 100'000;
  std::uint64_t seed = 1;
  Limits limits;
  integrity::Odp odp = integrity::Odp::kNo;
  std::optional<Service> service;  // of messages that name themselves
};

// What the server has to know of the other side's flags.
struct Terms {
  std::uint64_t operations, seed;
  std::uint32_t queue_pairs, size_max, windows;
  std::uint32_t service;  // or kPlanned
};

constexpr const char* kUsage =
    "usage: integrity [--server | --connect HOST] [--port N] [--device NAME]\n"
    "                 [--gid-index N] [--timeout CODE] [--ops N] [--seed S] [--size-max BYTES] "
    "[--qps N]\n"
    "                 [--transport rc|uc|ud|xrc] [--srq] [--odp explicit|implicit] [--windows]\n";

constexpr const char* kHelp =
    "\nWithout --server and --connect both sides are processes of this machine.\n\n"
    "Options:\n"
    "  -h,--help            print this and exit\n"
    "  --server             wait for the other side, and print the TCP port\n"
    "  --connect HOST       where that is; this side says what is done\n"
    "  --port N             its TCP port (18517)\n"
    "  --device NAME        the card (the first one)\n"
    "  --gid-index N        the address (1)\n"
    "  --timeout CODE       the queue pairs' timeout, as ibv_modify_qp takes it (13)\n"
    "  --ops N              how many operations (100000)\n"
    "  --seed S             all randomness comes from it (1): the same again\n"
    "  --size-max BYTES     the longest message (32768)\n"
    "  --qps N              queue pairs (8). Each locks 20 times the longest message, and 320 "
    "KiB,\n"
    "                       by default 8 MiB in all; with --srq and other transports 6 MiB each:\n"
    "                       see ulimit -l\n"
    "  --transport rc       all operations, with plans for all memory (default)\n"
    "  --transport uc|ud    messages, of which the network may lose some: they are counted\n"
    "  --transport xrc      messages to several shared receive queues\n"
    "  --srq                RC with one shared receive queue\n"
    "  --odp explicit|implicit  memory that is paged on demand, and moves meanwhile\n"
    "  --windows            memory windows, atomic writes and flushes, too\n";

[[noreturn]] void usage(int code) {
  std::FILE* const to = code == 0 ? stdout : stderr;
  std::fputs(kUsage, to);
  if (code == 0) {
    std::fputs(kHelp, to);
  }
  if (std::fflush(to) != 0) {
    integrity::die("writing the help");
  }
  std::exit(code);
}

std::uint64_t number(const char* text, std::uint64_t max) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 0);
  if (end == text || *end != '\0' || value > max) {
    std::fprintf(stderr, "integrity: '%s' isn't a number up to %llu\n", text,
                 static_cast<unsigned long long>(max));
    std::exit(2);
  }
  return value;
}

integrity::Odp on_demand(const std::string& kind) {
  if (kind != "explicit" && kind != "implicit") {
    usage(2);
  }
  return kind == "explicit" ? integrity::Odp::kExplicit : integrity::Odp::kImplicit;
}

std::optional<Service> service_of(const std::string& transport) {
  if (transport == "rc") {
    return std::nullopt;
  }
  if (transport != "uc" && transport != "ud" && transport != "xrc") {
    usage(2);
  }
  return transport == "uc" ? Service::kUc : transport == "ud" ? Service::kUd : Service::kXrc;
}

// Takes a flag without a value; false if it isn't one.
bool take_switch(Options& options, const std::string& flag) {
  if (flag == "--server") {
    options.server = true;
  } else if (flag == "--windows") {
    options.limits.windows = true;
  } else if (flag == "--srq") {
    options.service = Service::kRcSrq;
  } else {
    return false;
  }
  return true;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      usage(0);
    }
    if (take_switch(options, flag)) {
      continue;
    }
    if (i + 1 == argc) {
      usage(2);
    }
    const char* value = argv[++i];
    if (flag == "--connect") {
      options.connect = value;
    } else if (flag == "--port") {
      options.port = static_cast<std::uint16_t>(number(value, 65'535));
    } else if (flag == "--device") {
      options.device = value;
    } else if (flag == "--gid-index") {
      options.gid_index = static_cast<int>(number(value, 255));
    } else if (flag == "--timeout") {
      options.timeout_code = static_cast<std::uint8_t>(number(value, 31));
    } else if (flag == "--ops") {
      options.operations = number(value, UINT64_MAX);
    } else if (flag == "--seed") {
      options.seed = number(value, UINT64_MAX);
    } else if (flag == "--size-max") {
      options.limits.size_max = static_cast<std::uint32_t>(number(value, kSizeMax));
    } else if (flag == "--transport") {
      options.service = service_of(value);
    } else if (flag == "--odp") {
      options.odp = on_demand(value);
    } else if (flag == "--qps") {
      options.limits.queue_pairs = static_cast<std::uint32_t>(number(value, kQpsMax));
    } else {
      usage(2);
    }
  }
  return options;
}

// Connects queue pairs for messages that name themselves, and runs.
Totals play_messages(const Options& options, Link& link, const Terms& terms, bool leader) {
  MessageLimits limits{.service = static_cast<Service>(terms.service),
                       .queue_pairs = std::min(terms.queue_pairs, kMessageQpsMax),
                       .timeout_code = options.timeout_code};
  limits.size_max = std::min(limits.size_max, terms.size_max);
  MessageCard card(options.device, options.gid_index, limits);
  std::uint32_t size_theirs = 0;
  if (!link.exchange(card.limits().size_max, size_theirs) ||
      size_theirs != card.limits().size_max) {
    integrity::die("agreeing with the peer, whose MTU must be the same");
  }
  for (std::uint32_t qp = 0; qp < limits.queue_pairs; ++qp) {
    integrity::MessageEndpoint& endpoint = card.endpoint(qp);
    if (!link.exchange(endpoint.mine, endpoint.theirs)) {
      integrity::die("exchanging addresses with the peer");
    }
    card.connect(qp);
  }
  const MessageTotals totals = MessageRunner(card, link, terms.seed, leader).run(terms.operations);
  if (leader || totals.errors != 0) {
    std::printf("integrity: %llu messages of the peer lost, %llu came twice, %llu too late\n",
                static_cast<unsigned long long>(totals.lost),
                static_cast<unsigned long long>(totals.repeated),
                static_cast<unsigned long long>(totals.late));
  }
  return {.operations = totals.operations, .errors = totals.errors};
}

// The user's, or another program's.
void check(const Terms& terms) {
  const std::uint32_t size_min = terms.service != kPlanned ? integrity::kMessageSizeMin : 1;
  const bool known =
      terms.service == kPlanned || terms.service <= static_cast<std::uint32_t>(Service::kXrc);
  if (!known) {
    std::fprintf(stderr, "integrity: the peer asks for something that this one doesn't know\n");
    std::exit(2);
  }
  if (terms.queue_pairs == 0 || terms.queue_pairs > kQpsMax || terms.size_max < size_min ||
      terms.size_max > kSizeMax) {
    std::fprintf(stderr,
                 "integrity: 1 to %u queue pairs and messages of %u to %u bytes are supported\n",
                 kQpsMax, size_min, kSizeMax);
    std::exit(2);
  }
}

// Agrees on the terms, connects the queue pairs and runs. The leader is the side that connected.
Totals play(Options options, Link& link, bool leader) {
  Terms mine{options.operations,
             options.seed,
             options.limits.queue_pairs,
             options.limits.size_max,
             options.limits.windows ? 1U : 0U,
             options.service ? static_cast<std::uint32_t>(*options.service) : kPlanned};
  Terms theirs{};
  if (!link.exchange(mine, theirs)) {
    integrity::die("agreeing with the peer");
  }
  const Terms& terms = leader ? mine : theirs;
  check(terms);
  if (terms.service != kPlanned) {
    return play_messages(options, link, terms, leader);
  }
  options.limits.queue_pairs = terms.queue_pairs;
  options.limits.size_max = terms.size_max;
  options.limits.windows = terms.windows != 0;
  Card card(options.device, options.gid_index, options.limits, options.odp, options.timeout_code);
  std::uint32_t inline_theirs = 0;
  if (!link.exchange(card.inline_max(), inline_theirs)) {
    integrity::die("agreeing with the peer");
  }
  options.limits.inline_max = std::min(card.inline_max(), inline_theirs);
  for (std::uint32_t qp = 0; qp < options.limits.queue_pairs; ++qp) {
    integrity::Endpoint& endpoint = card.endpoint(qp);
    if (!link.exchange(endpoint.mine, endpoint.theirs)) {
      integrity::die("exchanging addresses with the peer");
    }
    card.connect(qp);
  }
  integrity::Disturber disturber(card.memories());
  Runner runner(card, link, options.limits, terms.seed, leader);
  Totals totals = runner.run(terms.operations);
  disturber.stop();
  if (options.odp != integrity::Odp::kNo && leader) {
    std::printf("integrity: memory was changed %llu times meanwhile\n",
                static_cast<unsigned long long>(disturber.changes()));
  }
  totals.errors += disturber.errors();
  return totals;
}

int report(const Totals& totals) {
  std::printf("integrity: %llu operations, %llu errors\n",
              static_cast<unsigned long long>(totals.operations),
              static_cast<unsigned long long>(totals.errors));
  if (std::fflush(stdout) != 0) {
    integrity::die("writing standard output");
  }
  return totals.errors == 0 ? 0 : 1;
}

// Forks before the first verbs call; the child leads nothing and prints only what is wrong.
int play_both(const Options& options) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    integrity::die("socketpair");
  }
  const pid_t child = fork();
  if (child < 0) {
    integrity::die("fork");
  }
  if (child == 0) {
    close(pair[0]);
    Link link(pair[1]);
    return play(options, link, false).errors == 0 ? 0 : 1;
  }
  close(pair[1]);
  Totals totals;
  {
    Link link(pair[0]);
    totals = play(options, link, true);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 && totals.errors == 0) {
    ++totals.errors;
  }
  return report(totals);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.server && options.connect.empty()) {
    return play_both(options);
  }
  const int descriptor = options.server
                             ? Link::listen_once("integrity", options.port)
                             : Link::connect_to("integrity", options.connect, options.port);
  if (descriptor < 0) {
    return 1;
  }
  Link link(descriptor);
  return report(play(options, link, !options.server));
}
