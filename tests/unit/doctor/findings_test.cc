#include "apps/doctor/findings.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

namespace uroce::doctor {
namespace {

// A machine without any problem.
Facts healthy() {
  Facts facts;
  facts.version = "1.2.3";
  facts.daemon.socket = "/run/uroce/uroce.sock";
  facts.daemon.report = nlohmann::ordered_json::parse(R"({
    "version": "1.2.3", "stuck_threads": [], "workers": [{"worker": 0, "absent_us": 10}],
    "devices": [{"name": "uroce0", "port": "loopback", "link": "up", "trouble": "", "mtu": 4200, "path_mtu": 4096,
                 "addresses": [{"index": 0, "address": "fe80::1/64"}, {"index": 1, "address": "10.0.0.1/24"}],
                 "rx_missed": 0, "tx_failed": 0, "hw_counters": {"requests_sent": 1000, "requests_resent": 0}}]})");
  facts.library = {.loaded = "/usr/lib/x/uroce/libibverbs.so.1", .ours = ""};
  facts.kernel = {.userfaultfd = KernelFacts::UserFault::kAll,
                  .procmap_query = true,
                  .pidfd = true,
                  .huge_pages = 0,
                  .memlock_bytes = UINT64_MAX,
                  .processors = 4,
                  .roce_port_taken = false,
                  .kernel_cards = {}};
  return facts;
}

nlohmann::ordered_json& device(Facts& facts) { return facts.daemon.report["devices"][0]; }

TEST(Examine, AHealthyMachineHasNothingToDo) {
  for (const Finding& finding : examine(healthy())) {
    EXPECT_EQ(finding.weight, Severity::kGood) << finding.sentence;
  }
}

TEST(Examine, NamesTheGidIndexToUse) {
  bool said = false;
  for (const Finding& finding : examine(healthy())) {
    said =
        said || finding.sentence.find("use GID index 1 for 10.0.0.1/24 (-x") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

struct Ill {
  Severity weight;
  const char* about;
  const char* words;  // the advice
  std::function<void(Facts&)> make;
};

const Ill kIll[] = {
    {Severity::kProblem, "daemon", "bob listens",
     [](Facts& facts) {
       facts.daemon = {.socket = "/x", .error = EPERM, .refusal = "bob listens", .report = {}};
     }},
    {Severity::kProblem, "daemon", "hasn't answered for 30 s; look at its log",
     [](Facts& facts) {
       facts.daemon = {
           .socket = "/x", .error = ETIMEDOUT, .refusal = "hasn't answered for 30 s", .report = {}};
     }},
    {Severity::kProblem, "version", "restart the daemon",
     [](Facts& facts) { facts.version = "2"; }},
    {Severity::kProblem, "daemon", "stands still for 12 s, worker 0",
     [](Facts& facts) {
       facts.daemon.report["stuck_threads"] = {{{"seconds", 12U}, {"name", "worker 0"}}};
     }},
    {Severity::kNote, "library", "uroce run -- PROGRAM",
     [](Facts& facts) { facts.library.loaded = ""; }},
    {Severity::kNote, "library", "/lib/libibverbs.so.1, which doesn't know this card",
     [](Facts& facts) { facts.library.loaded = "/lib/libibverbs.so.1"; }},
    {Severity::kNote, "library", "a card of its own, mlx5_0",
     [](Facts& facts) { facts.kernel.kernel_cards = {"mlx5_0"}; }},
    {Severity::kProblem, "link", "has no link; bring its interface up",
     [](Facts& facts) { device(facts)["link"] = "down"; }},
    {Severity::kProblem, "link", "has no link; start what is at its other end",
     [](Facts& facts) {
       device(facts)["port"] = "net_memif0";
       device(facts)["link"] = "down";
     }},
    {Severity::kProblem, "link", "uroce0 (udp) has no link: no cable",
     [](Facts& facts) {
       device(facts)["port"] = "udp";
       device(facts)["link"] = "down";
       device(facts)["trouble"] = "no cable";
     }},
    {Severity::kProblem, "link", "uroce0 (shm,path=/run/wire) is up, but the MTUs differ",
     [](Facts& facts) {
       device(facts)["port"] = "shm,path=/run/wire";
       device(facts)["trouble"] = "the MTUs differ";
     }},
    {Severity::kProblem, "link", "bring its interface up",
     [](Facts& facts) {
       device(facts)["port"] = "net_virtio_user0,path=/dev/vhost-net,iface=tap0";
       device(facts)["link"] = "down";
     }},
    {Severity::kProblem, "address", "uroce addr --device uroce0 add",
     [](Facts& facts) { device(facts)["addresses"].erase(1); }},
    {Severity::kProblem, "address", "ip address add ADDRESS/N dev w0)",
     [](Facts& facts) {
       device(facts)["port"] = "udp,iface=w0,segments=1";
       device(facts)["addresses"].clear();
     }},
    {Severity::kProblem, "address", "10.0.0.1/24 is also claimed by 02:00:00:00:00:09 (heard 12 s",
     [](Facts& facts) {
       device(facts)["addresses"][1]["claimed_by"] = "02:00:00:00:00:09";
       device(facts)["addresses"][1]["claimed_seconds_ago"] = 12U;
     }},
    {Severity::kNote, "mtu", "an MTU of 4200 carries 4096",
     [](Facts& facts) { device(facts)["path_mtu"] = 1024U; }},
    {Severity::kNote, "loss", "missed 7 packets",
     [](Facts& facts) { device(facts)["rx_missed"] = 7U; }},
    {Severity::kNote, "loss", "ip route get",
     [](Facts& facts) { device(facts)["tx_failed"] = 7U; }},
    {Severity::kNote, "loss", "sent 1000 packets and resent packets 11 times: something on the way",
     [](Facts& facts) { device(facts)["hw_counters"]["requests_resent"] = 11U; }},
    {Severity::kNote, "loss", "peers weren't ready to receive 463 times",
     [](Facts& facts) {
       device(facts)["hw_counters"] = {
           {"requests_sent", 20U}, {"requests_resent", 463U}, {"rnr_nak_retry_err", 463U}};
     }},
    {Severity::kNote, "loss", "peers didn't answer in time 25 times: they were gone or unreachable",
     [](Facts& facts) {
       device(facts)["hw_counters"] = {{"requests_sent", 6U},
                                       {"requests_resent", 43U},
                                       {"local_ack_timeout_err", 25U},
                                       {"tail_probes", 225U}};
     }},
    {Severity::kNote, "loss", "something on the way loses packets",
     [](Facts& facts) {
       device(facts)["hw_counters"] = {{"requests_sent", 1000U},
                                       {"requests_resent", 50U},
                                       {"packet_seq_err", 9U},
                                       {"rnr_nak_retry_err", 12U},
                                       {"local_ack_timeout_err", 10U}};
     }},
    {Severity::kNote, "processors", "kept from running for 2 s",
     [](Facts& facts) { facts.daemon.report["workers"][0]["absent_us"] = 2'000'000U; }},
    {Severity::kNote, "processors", "fewer --workers",
     [](Facts& facts) {
       facts.daemon.report["workers"] = {1, 2, 3, 4};
     }},
    {Severity::kProblem, "port", "rmmod rdma_rxe",
     [](Facts& facts) { facts.kernel.roce_port_taken = true; }},
    {Severity::kNote, "huge pages", "vm.nr_hugepages=512",
     [](Facts& facts) { device(facts)["port"] = "0000:3b:00.0"; }},
    {Severity::kNote, "kernel", "vm.unprivileged_userfaultfd",
     [](Facts& facts) { facts.kernel.userfaultfd = KernelFacts::UserFault::kUserMode; }},
    {Severity::kNote, "kernel", "on arm64 since Linux 6.10",
     [](Facts& facts) { facts.kernel.userfaultfd = KernelFacts::UserFault::kHoldsNoWriters; }},
    {Severity::kNote, "kernel", "the container's seccomp",
     [](Facts& facts) { facts.kernel.userfaultfd = KernelFacts::UserFault::kRefused; }},
    {Severity::kNote, "kernel", "older than 6.11",
     [](Facts& facts) { facts.kernel.procmap_query = false; }},
    {Severity::kProblem, "kernel", "pidfd_open is refused",
     [](Facts& facts) { facts.kernel.pidfd = false; }},
    {Severity::kNote, "memlock", "ulimit -l unlimited",
     [](Facts& facts) { facts.kernel.memlock_bytes = 8U << 20U; }},
};

TEST(Examine, ResendsAreComparedWithMessagesWithoutFramesToo) {
  Facts facts = healthy();
  device(facts)["hw_counters"] = {
      {"requests_sent", 6U}, {"requests_resent", 43U}, {"direct_messages", 23'029U}};
  for (const Finding& finding : examine(facts)) {
    EXPECT_NE(finding.about, "loss") << finding.sentence;
  }
}

TEST(Examine, EachProblemIsNamedWithItsRemedy) {
  for (const Ill& ill : kIll) {
    SCOPED_TRACE(ill.words);
    Facts facts = healthy();
    ill.make(facts);
    std::string all;
    int found = 0;
    for (const Finding& finding : examine(facts)) {
      if (finding.weight != Severity::kGood) {
        all += finding.about + ": " + finding.sentence + "\n";
        found += finding.weight == ill.weight && finding.about == ill.about &&
                         finding.sentence.find(ill.words) != std::string::npos
                     ? 1
                     : 0;
      }
    }
    EXPECT_EQ(found, 1) << all;
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1) << all;
  }
}

// `uroce run` shows it in /sys.
TEST(Examine, OurOwnCardIsNotTakenForAKernelCard) {
  Facts facts = healthy();
  facts.kernel.kernel_cards = {"uroce0"};
  for (const Finding& finding : examine(facts)) {
    EXPECT_EQ(finding.weight, Severity::kGood) << finding.sentence;
  }
}

// The sockets of a udp port, and the unread ones that the daemon holds beside a port with a wire.
TEST(Examine, OurOwnUdpPortIsNoProblem) {
  for (const char* const port :
       {"udp", "udp,iface=eth0", "net_af_packet0,iface=eth0", "shm,path=/dev/shm/x"}) {
    Facts facts = healthy();
    device(facts)["port"] = port;
    facts.kernel.roce_port_taken = true;
    for (const Finding& finding : examine(facts)) {
      EXPECT_EQ(finding.weight, Severity::kGood) << port << ": " << finding.sentence;
    }
  }
}

TEST(Examine, AnInvalidReportIsTolerated) {
  for (const char* const report : {"[]", "3", R"({"devices": [3, {"name": 4}], "workers": "x"})"}) {
    Facts facts = healthy();
    facts.daemon.report = nlohmann::ordered_json::parse(report);
    EXPECT_FALSE(examine(facts).empty());
  }
}

}  // namespace
}  // namespace uroce::doctor
