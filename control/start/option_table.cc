#include "control/start/option_table.h"

#include <utility>
#include <vector>

#include "base/sockets/socket_path.h"

namespace uroce::control {
namespace {

template <typename Number>
std::string number_text(Number number) {
  return std::to_string(static_cast<std::int64_t>(number));
}

template <std::string DaemonOptions::*kMember>
Status set_string(const std::string& text, DaemonOptions* options) {
  options->*kMember = text;
  return ok();
}

template <std::string DaemonOptions::*kMember>
std::string string_of(const DaemonOptions& options) {
  return options.*kMember;
}

std::vector<PortOption> make_port_options() {
  return {
      {{"ip", "ADDRESS/N",
        "IPv4 or IPv6 address of the port, optionally followed by @VLAN; repeat for more",
        value::add_address},
       true},
      {{"route", "NET/N=GATEWAY", "send packets for this network to a router; repeat for more",
        value::add_route},
       true},
      {{"mtu", "BYTES",
        "largest IP packet of the port (1500; udp: its interface's); 4200 carries path MTU 4096",
        value::set_mtu}},
      {{"interface", "NAME", "create a tap interface with the port's addresses, for getifaddrs",
        value::set_interface}},
      {{"faults", "SPEC",
        "simulate a bad network: loss=0.01,dup=0.01,reorder=0.02,corrupt=0.001,seed=7; a "
        "bottleneck: rate=10gbit,queue=400k,kmin=100k,kmax=400k,pmax=0.2,delay=50us; an event for "
        "one packet: at=qp:0/psn:4/iter:2:drop",
        value::set_faults}},
  };
}

std::vector<DaemonOption> make_service_options() {
  return {
      {{"socket", "PATH", "the socket for programs (" + daemon_socket() + ")",
        set_string<&DaemonOptions::socket>},
       string_of<&DaemonOptions::socket>},
      {{"socket-mode", "MODE", "permissions of the socket, as for chmod (0666: every local user)",
        value::set_socket_mode},
       [](const DaemonOptions& o) { return number_text(o.socket_mode); }},
      {{"log-level", "LEVEL", "trace, debug, info (default), warning, error or off",
        value::set_log_level},
       string_of<&DaemonOptions::log_level>,
       true},
      {{"seccomp", "MODE",
        "system calls that a running daemon never needs: on (refused; default), kill, log or off",
        value::set_call_filter},
       [](const DaemonOptions& o) { return number_text(o.call_filter); }},
      {{"pid-file", "FILE", "write the process id to this file",
        set_string<&DaemonOptions::pid_file>},
       string_of<&DaemonOptions::pid_file>},
      {{"metrics", "ADDRESS:PORT|unix:PATH",
        "serve metrics for Prometheus there, to anyone who can connect", value::set_metrics},
       string_of<&DaemonOptions::metrics>},
      {{"telemetry", "", "open DPDK's telemetry socket", &DaemonOptions::telemetry},
       [](const DaemonOptions& o) { return number_text(o.telemetry); }},
  };
}

std::vector<DaemonOption> make_card_options() {
  return {
      {{"workers", "N", "number of threads that process packets (1)", value::set_workers},
       [](const DaemonOptions& o) { return number_text(o.workers); }},
      {{"idle", "POLICY", "adaptive (default): sleep when idle; poll: never sleep",
        value::set_idle},
       [](const DaemonOptions& o) { return number_text(o.idle); }},
      {{"recovery", "MODE",
        "selective (default): resend only lost packets; go-back-n: and all packets after them",
        value::set_recovery},
       [](const DaemonOptions& o) { return number_text(o.recovery); }},
      {{"direct", "on|off",
        "on (default): copy messages between queue pairs of one worker without frames; off: send "
        "them as frames",
        value::set_direct},
       [](const DaemonOptions& o) { return number_text(o.direct); }},
      {{"latency", "on|off",
        "on (default): each queue pair measures the latency of one message at a time; off: none",
        value::set_latency},
       [](const DaemonOptions& o) { return number_text(o.latency); }},
      {{"odp-resident-limit", "BYTES",
        "limit of resident on-demand memory (none); beyond it the least recently used is evicted",
        value::set_resident_limit},
       [](const DaemonOptions& o) { return number_text(o.paging.daemon); }},
      {{"odp-session-resident-limit", "BYTES", "the same for each program (none)",
        value::set_session_resident_limit},
       [](const DaemonOptions& o) { return number_text(o.paging.session); }},
      {{"congestion", "MODE",
        "dcqcn (default): senders reduce their rate on congestion notifications; delay: also on "
        "long round trips; none",
        value::set_congestion},
       [](const DaemonOptions& o) { return number_text(o.congestion.mode); }},
      {{"cnp-interval", "US",
        "minimum interval between congestion notifications to a sender, in microseconds (50)",
        value::set_cnp_interval},
       [](const DaemonOptions& o) { return number_text(o.congestion.cnp_interval); }},
      {{"cnp-dscp", "N", "DSCP of congestion notifications (48)", value::set_cnp_dscp},
       [](const DaemonOptions& o) { return number_text(o.congestion.cnp_dscp); }},
      {{"vendor-id", "N", "the vendor id that ibv_query_device reports", value::set_vendor_id},
       [](const DaemonOptions& o) { return number_text(o.identity.vendor_id); }},
      {{"vendor-part-id", "N", "the part id that ibv_query_device reports (26428)",
        value::set_vendor_part_id},
       [](const DaemonOptions& o) { return number_text(o.identity.vendor_part_id); }},
  };
}

std::vector<DaemonOption> make_daemon_options() {
  std::vector<DaemonOption> all = make_service_options();
  for (DaemonOption& option : make_card_options()) {
    all.push_back(std::move(option));
  }
  return all;
}

}  // namespace

std::span<const PortOption> port_options() {
  static const std::vector<PortOption> options = make_port_options();
  return options;
}

std::span<const DaemonOption> daemon_options() {
  static const std::vector<DaemonOption> options = make_daemon_options();
  return options;
}

}  // namespace uroce::control
