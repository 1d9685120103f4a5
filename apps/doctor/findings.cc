#include "apps/doctor/findings.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "dataplane/wire/path_mtu.h"

namespace uroce::doctor {
namespace {

using Json = nlohmann::ordered_json;
using Findings = std::vector<Finding>;

constexpr std::uint64_t kMemlockMin = 64U << 20U;
constexpr std::uint64_t kAbsentSecondsMax = 1;

std::string text(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? found->get<std::string>()
             : "";
}

std::uint64_t number(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_number_unsigned()
             ? found->get<std::uint64_t>()
             : 0;
}

const Json& list(const Json& object, const char* name) {
  static const Json none = Json::array();
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_array() ? *found : none;
}

void good(Findings& findings, const char* about, std::string sentence) {
  findings.push_back({Severity::kGood, about, std::move(sentence)});
}
void note(Findings& findings, const char* about, std::string sentence) {
  findings.push_back({Severity::kNote, about, std::move(sentence)});
}
void problem(Findings& findings, const char* about, std::string sentence) {
  findings.push_back({Severity::kProblem, about, std::move(sentence)});
}

void examine_daemon(const Facts& facts, Findings& findings) {
  const DaemonFacts& daemon = facts.daemon;
  switch (daemon.error) {
    case 0:
      break;
    case ENOENT:  // what connect_to_daemon() says has the remedy
    case ECONNREFUSED:
    case EACCES:
    case EPERM:
      return problem(findings, "daemon", daemon.refusal);
    default:
      return problem(findings, "daemon",
                     "the daemon at " + daemon.socket + " doesn't serve: " + daemon.refusal +
                         "; look at its log (journalctl -u uroced)");
  }
  const std::string version = text(daemon.report, "version");
  good(findings, "daemon", "uroced " + version + " answers at " + daemon.socket);
  if (version != facts.version) {
    problem(findings, "version",
            "the daemon is of version " + version + ", this tool of " + facts.version +
                ": restart the daemon (systemctl restart uroced), so that both are of one");
  }
  for (const Json& thread : list(daemon.report, "stuck_threads")) {
    problem(findings, "daemon",
            "a thread of the daemon stands still for " + std::to_string(number(thread, "seconds")) +
                " s, " + text(thread, "name") + ": restart the daemon, and report its log");
  }
}

bool is_a_device(const Json& report, const std::string& name) {
  const Json& devices = list(report, "devices");
  return std::any_of(devices.begin(), devices.end(),
                     [&](const Json& device) { return text(device, "name") == name; });
}

void examine_library(const Facts& facts, Findings& findings) {
  const LibraryFacts& library = facts.library;
  if (library.loaded.empty()) {
    note(findings, "library",
         "programs started here find no libibverbs.so.1: start them by `uroce run -- PROGRAM`");
  } else if (library.loaded == library.ours ||
             library.loaded.find("/uroce/") != std::string::npos) {
    good(findings, "library", "programs started here get " + library.loaded);
  } else {
    note(findings, "library",
         "programs started here get " + library.loaded +
             ", which doesn't know this card: start them by `uroce run -- PROGRAM`, or install the "
             "package libibverbs-uroce");
  }
  for (const std::string& card : facts.kernel.kernel_cards) {
    if (is_a_device(facts.daemon.report, card)) {
      continue;  // /sys shows it to programs of `uroce run`
    }
    note(findings, "library",
         "the kernel has a card of its own, " + card +
             ": with uroce's libibverbs programs see uroce's cards only");
  }
}

// The interface whose addresses a udp port uses; empty if it has addresses of its own.
std::string followed_interface(const std::string& port) {
  constexpr std::string_view kKey = ",iface=";
  const std::size_t key = port.find(kKey);
  if (!port.starts_with("udp,") || key == std::string::npos) {
    return "";
  }
  const std::size_t start = key + kKey.size();
  return port.substr(start, port.find(',', start) - start);
}

void examine_addresses(const Json& device, Findings& findings) {
  const std::string name = text(device, "name");
  const Json& addresses = list(device, "addresses");
  std::string usable;
  for (const Json& address : addresses) {
    if (const std::uint64_t index = number(address, "index"); index != 0) {
      usable +=
          (usable.empty() ? "" : ", ") + std::to_string(index) + " for " + text(address, "address");
    }
    if (const std::string other = text(address, "claimed_by"); !other.empty()) {
      problem(findings, "address",
              name + ": " + text(address, "address") + " is also claimed by " + other + " (heard " +
                  std::to_string(number(address, "claimed_seconds_ago")) +
                  " s ago): two hosts have this address; give one of them another");
    }
  }
  const std::string interface = followed_interface(text(device, "port"));
  if (usable.empty() && !interface.empty()) {
    problem(findings, "address",
            name + " has no address, since " + interface +
                " has none: give it one (ip address add ADDRESS/N dev " + interface + ")");
  } else if (usable.empty()) {
    problem(findings, "address",
            name + " has no address but its link-local one: give it one (uroce addr --device " +
                name + " add ADDRESS/N, or ip = in uroce.toml)");
  } else {
    good(findings, "address",
         name + ": use GID index " + usable + " (-x of perftest, -g of ibv_rc_pingpong)");
  }
}

// Whether its link is another process, not an interface.
bool has_a_peer(const std::string& port) {
  if (port.find("path=/dev/vhost-net") != std::string::npos) {
    return false;  // a virtio_user port whose other end is an interface of the kernel
  }
  constexpr const char* kKinds[] = {"shm", "net_vhost", "net_virtio_user", "net_memif"};
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [&port](const char* kind) { return port.starts_with(kind); });
}

void examine_link(const Json& device, Findings& findings) {
  const std::string name = text(device, "name");
  const std::string trouble = text(device, "trouble");
  const std::string place = name + " (" + text(device, "port") + ")";
  const bool up = text(device, "link") == "up";
  if (!trouble.empty()) {  // says what to do, where something is to be done
    problem(findings, "link", place + (up ? " is up, but " : " has no link: ") + trouble);
  } else if (!up) {
    problem(findings, "link",
            place + " has no link" +
                (has_a_peer(text(device, "port"))
                     ? "; start what is at its other end"
                     : "; bring its interface up (ip link set dev NAME up)"));
  } else {
    good(findings, "link", place + " is up");
  }
  if (const std::uint64_t path = number(device, "path_mtu"); path < kPathMtuMax) {
    note(findings, "mtu",
         name + " sends packets of " + std::to_string(path) + " bytes, since its IP packets have " +
             std::to_string(number(device, "mtu")) +
             ": where all of the network can, an MTU of 4200 carries 4096");
  }
}

// Why packets were sent again. Only a gap that one side saw proves a loss on the way; without any,
// the peers weren't ready or didn't answer, and a timer doesn't tell a lost last packet from a peer
// that is gone.
std::string cause_of_resends(const Json& counters) {
  const std::uint64_t gaps =
      number(counters, "packet_seq_err") + number(counters, "implied_nak_seq_err");
  const std::uint64_t not_ready = number(counters, "rnr_nak_retry_err");
  const std::uint64_t silences = number(counters, "local_ack_timeout_err");
  if (gaps == 0 && not_ready > silences) {
    return "peers weren't ready to receive " + std::to_string(not_ready) +
           " times: their programs post receives too late";
  }
  if (gaps == 0 && silences != 0) {
    return "peers didn't answer in time " + std::to_string(silences) +
           " times: they were gone or unreachable (`uroce errors` has the connections that "
           "failed), "
           "or the last packets of messages were lost";
  }
  return "something on the way loses packets; `uroce check` of a capture says where";
}

void examine_resends(const std::string& name, const Json& counters, Findings& findings) {
  const std::uint64_t sent = number(counters, "requests_sent");
  const std::uint64_t again = number(counters, "requests_resent");
  if (again * 100 > sent + number(counters, "direct_messages")) {
    note(findings, "loss",
         name + " sent " + std::to_string(sent) + " packets and resent packets " +
             std::to_string(again) + " times: " + cause_of_resends(counters));
  }
}

void examine_losses(const Json& device, Findings& findings) {
  const std::string name = text(device, "name");
  if (const std::uint64_t missed = number(device, "rx_missed"); missed != 0) {
    note(findings, "loss",
         name + " missed " + std::to_string(missed) +
             " packets because nobody polled in time: give the daemon more processors or "
             "--workers");
  }
  if (const std::uint64_t failed = number(device, "tx_failed"); failed != 0) {
    note(findings, "loss",
         std::to_string(failed) + " packets of " + name +
             " couldn't be sent, no route or too long: look at `ip route get PEER` and the MTU");
  }
  examine_resends(name, device.contains("hw_counters") ? device["hw_counters"] : Json(), findings);
}

void examine_workers(const Facts& facts, Findings& findings) {
  const Json& workers = list(facts.daemon.report, "workers");
  std::uint64_t absent_us = 0;
  for (const Json& worker : workers) {
    absent_us += number(worker, "absent_us");
  }
  constexpr std::uint64_t kMicroseconds = 1'000'000;
  if (absent_us > kAbsentSecondsMax * kMicroseconds) {
    note(
        findings, "processors",
        "the daemon's workers were kept from running for " +
            std::to_string(absent_us / kMicroseconds) +
            " s since it began: other processes use their processors; run fewer of those, or raise "
            "CPUWeight= of uroced.service");
  }
  if (workers.size() >= facts.kernel.processors && workers.size() > 1) {
    note(findings, "processors",
         "the daemon has " + std::to_string(workers.size()) + " workers on " +
             std::to_string(facts.kernel.processors) +
             " processors: none is left for programs; use fewer --workers");
  }
}

// A udp port receives there, and beside a port with a wire the daemon holds a socket that nobody
// reads (docs/architecture.md).
bool holds_roce_port(const std::string& port) { return !port.empty() && port != "loopback"; }

// A PCI address; no other kind of port is written like that.
bool is_network_card(const std::string& port) {
  return port.find(':') != std::string::npos &&
         port.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

void examine_port(const Facts& facts, Findings& findings) {
  bool ours = false;
  bool card = false;
  for (const Json& device : list(facts.daemon.report, "devices")) {
    const std::string port = text(device, "port");
    ours = ours || holds_roce_port(port);
    card = card || is_network_card(port);
  }
  if (facts.kernel.roce_port_taken && !ours) {
    problem(findings, "port",
            "UDP port 4791 is taken, and not by this daemon: a udp port (uroce run --net) can't "
            "have it; unload rdma_rxe (rmmod rdma_rxe), or end the other daemon (ss -ulnp 'sport = "
            "4791')");
  } else {
    good(findings, "port",
         facts.kernel.roce_port_taken ? "UDP port 4791 is the daemon's"
                                      : "UDP port 4791 is free, for uroce run --net");
  }
  if (card && facts.kernel.huge_pages == 0) {
    note(findings, "huge pages",
         "there are none, so the network card's buffers are in ordinary pages, which is slower: "
         "sysctl vm.nr_hugepages=512, and start the daemon again");
  }
}

void examine_kernel(const Facts& facts, Findings& findings) {
  const KernelFacts& kernel = facts.kernel;
  if (kernel.userfaultfd == KernelFacts::UserFault::kUserMode) {
    note(findings, "kernel",
         "you may use userfaultfd for user mode only: in the microseconds in which memory is "
         "registered, a read(2) of another thread into it fails with EFAULT; against that, sysctl "
         "vm.unprivileged_userfaultfd=1");
  } else if (kernel.userfaultfd == KernelFacts::UserFault::kRefused) {
    note(findings, "kernel",
         "userfaultfd is refused, perhaps by a container's filter: private memory of programs with "
         "threads is reached by system calls, which is slower; allow it in the container's seccomp "
         "profile");
  }
  if (kernel.userfaultfd == KernelFacts::UserFault::kHoldsNoWriters) {
    note(findings, "kernel",
         "its userfaultfd can't protect pages against writes, on arm64 since Linux 6.10: private "
         "memory of programs with threads is reached by system calls, which is slower");
  }
  if (!kernel.procmap_query) {
    note(findings, "kernel",
         "Linux is older than 6.11: registering memory reads /proc/self/maps, which takes long in "
         "programs with many mappings");
  }
  if (!kernel.pidfd) {
    problem(findings, "kernel",
            "pidfd_open is refused, by an old kernel or a container's filter: allow it (Linux 5.3, "
            "seccomp profile of the container)");
  }
  if (!facts.root && kernel.memlock_bytes < kMemlockMin) {
    note(findings, "memlock",
         "your limit of locked memory lets you register " +
             std::to_string(kernel.memlock_bytes >> 10U) +
             " KiB: programs that register more get ENOMEM, or leave RDMA alone (UCX, MPI); ulimit "
             "-l unlimited, or `* - memlock unlimited` in /etc/security/limits.conf");
  }
}

}  // namespace

std::string_view name(Severity weight) {
  constexpr std::string_view kNames[] = {"ok", "note", "PROBLEM"};
  return kNames[static_cast<std::size_t>(weight)];
}

std::vector<Finding> examine(const Facts& facts) {
  Findings findings;
  examine_daemon(facts, findings);
  examine_library(facts, findings);
  for (const Json& device : list(facts.daemon.report, "devices")) {
    examine_link(device, findings);
    examine_addresses(device, findings);
    examine_losses(device, findings);
  }
  examine_workers(facts, findings);
  examine_port(facts, findings);
  examine_kernel(facts, findings);
  return findings;
}

nlohmann::ordered_json as_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"weight", std::string(name(finding.weight))},
                    {"about", finding.about},
                    {"sentence", finding.sentence}});
  }
  return list;
}

}  // namespace uroce::doctor
