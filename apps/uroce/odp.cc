#include "apps/uroce/odp.h"

#include <cstdio>
#include <string>

#include "apps/uroce/daemon_answer.h"
#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce {
namespace {

std::uint64_t number(const Json& object, const char* key) {
  return object.value(key, std::uint64_t{0});
}

std::string size_of(std::uint64_t bytes) { return std::to_string(bytes / 1024) + " KiB"; }

std::string limit_of(std::uint64_t bytes) { return bytes == 0 ? "no limit" : size_of(bytes); }

void print_counts(const Json& counts) {
  std::printf(
      "%llu faults (requester %llu, completer %llu, responder %llu, answer %llu), "
      "%llu asked for, %llu retried, %llu failed",
      static_cast<unsigned long long>(number(counts, "faults")),
      static_cast<unsigned long long>(number(counts, "requester")),
      static_cast<unsigned long long>(number(counts, "completer")),
      static_cast<unsigned long long>(number(counts, "responder")),
      static_cast<unsigned long long>(number(counts, "answer")),
      static_cast<unsigned long long>(number(counts, "asked")),
      static_cast<unsigned long long>(number(counts, "retried")),
      static_cast<unsigned long long>(number(counts, "failed")));
}

// The bucket below whose upper end `share` of all lie, as microseconds.
double quantile(const Json& buckets, double share) {
  std::uint64_t all = 0;
  for (const Json& count : buckets) {
    all += count.get<std::uint64_t>();
  }
  std::uint64_t seen = 0;
  double upper_ns = 2;
  for (const Json& count : buckets) {
    seen += count.get<std::uint64_t>();
    if (seen != 0 && static_cast<double>(seen) >= share * static_cast<double>(all)) {
      break;
    }
    upper_ns *= 2;
  }
  return all == 0 ? 0 : upper_ns / 1000;
}

void print_trace(const Json& fault) {
  std::printf("  %llu.%06llu s session %llu QP %llu %-9s %s 0x%llx+%llu key 0x%llx: %s",
              static_cast<unsigned long long>(number(fault, "time_ns") / 1'000'000'000),
              static_cast<unsigned long long>(number(fault, "time_ns") / 1'000 % 1'000'000),
              static_cast<unsigned long long>(number(fault, "session")),
              static_cast<unsigned long long>(number(fault, "qpn")),
              fault.value("role", "").c_str(), fault.value("write", false) ? "write" : "read ",
              static_cast<unsigned long long>(number(fault, "address")),
              static_cast<unsigned long long>(number(fault, "length")),
              static_cast<unsigned long long>(number(fault, "key")),
              fault.value("outcome", "").c_str());
  std::printf(", waited %.1f us, %s %.1f us, populated %.1f us, %llu retries\n",
              static_cast<double>(number(fault, "waiting_ns")) / 1000,
              fault.value("asked", false) ? "shared" : "known",
              static_cast<double>(number(fault, "sharing_ns")) / 1000,
              static_cast<double>(number(fault, "populating_ns")) / 1000,
              static_cast<unsigned long long>(number(fault, "retries")));
}

void print_report(const Json& report, bool trace) {
  std::printf("resident: %s of %s, for each session of %s\n",
              size_of(number(report, "resident_bytes")).c_str(),
              limit_of(number(report, "resident_limit")).c_str(),
              limit_of(number(report, "session_resident_limit")).c_str());
  for (const auto& [step, buckets] : report["histogram_log2_ns"].items()) {
    std::printf("%-10s  half below %.1f us, 99%% below %.1f us\n", step.c_str(),
                quantile(buckets, 0.5), quantile(buckets, 0.99));
  }
  for (const Json& session : report["sessions"]) {
    std::printf("session %llu (pid %llu): %s resident, %s evicted, %llu pages at once, ",
                static_cast<unsigned long long>(number(session, "id")),
                static_cast<unsigned long long>(number(session, "pid")),
                size_of(number(session, "resident_bytes")).c_str(),
                size_of(number(session, "evicted_bytes")).c_str(),
                static_cast<unsigned long long>(number(session, "at_once")));
    print_counts(session);
    std::printf("\n");
    for (const Json& region : session["regions"]) {
      std::printf("  key 0x%llx: ", static_cast<unsigned long long>(number(region, "key")));
      print_counts(region);
      std::printf("\n");
    }
  }
  if (trace) {
    std::printf("the last faults:\n");
    for (const Json& fault : report["trace"]) {
      print_trace(fault);
    }
  }
}

}  // namespace

int show_odp(bool json, bool trace) {
  const auto report =
      answer_of("uroce odp", control::fetch_status(program_socket(), abi::Command::kOdpStatus),
                {"sessions", "trace"});
  if (!report) {
    return 1;
  }
  if (json) {
    std::printf("%s\n", report->dump(2).c_str());
  } else {
    print_report(*report, trace);
  }
  return 0;
}

}  // namespace uroce
