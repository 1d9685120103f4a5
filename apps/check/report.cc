#include "apps/check/report.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "apps/check/text.h"

namespace uroce::check {
namespace {

std::string with_unit(std::uint64_t count, const char* unit) {
  return std::to_string(count) + " " + unit + (count == 1 ? "" : "s");
}

// "requests_sent 12, acks_sent 3" of what isn't 0.
std::string counts(const Tally& tally) {
  std::string line;
#define UROCE_TALLY(name, explanation)                                                 \
  if (tally.name != 0) {                                                               \
    line += (line.empty() ? "" : ", ") + (#name + (" " + std::to_string(tally.name))); \
  }
#include "apps/check/tally.def"
#undef UROCE_TALLY
  return line;
}

std::string microseconds(Duration duration) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1)
       << static_cast<double>(duration) / static_cast<double>(kNanosecondsPerMicrosecond);
  return text.str();
}

void print_times(const char* what, const Histogram& times, std::ostream& out) {
  if (times.count() != 0) {
    out << "    " << what << ": " << times.count() << " times, us: p50 "
        << microseconds(times.percentile(0.5)) << ", p90 " << microseconds(times.percentile(0.9))
        << ", p99 " << microseconds(times.percentile(0.99)) << ", max " << microseconds(times.max())
        << "\n";
  }
}

void print_findings(const Findings& findings, Time first, std::ostream& out) {
  for (const Finding& finding : findings.kept()) {
    out << "    FAULT " << name(finding.fault) << ", frame " << finding.place.frame << " ("
        << milliseconds(finding.place.time - std::min(first, finding.place.time))
        << "): " << finding.sentence << "\n";
  }
  if (const std::uint64_t more = findings.total() - findings.kept().size(); more != 0) {
    out << "    and " << with_unit(more, "other fault") << "\n";
  }
}

// What one end sent.
void print_half(const HalfVerdict& half, Time first, std::ostream& out) {
  out << "  " << to_string(half.half.key.from) << " to QP " << half.half.key.qpn << ": "
      << counts(half.tally) << "\n";
  if (const Times* const times = half.stream.times(); times != nullptr) {
    print_times("answered after", times->answer, out);
    print_times("gap to NAK", times->nak, out);
    print_times("NAK to retransmission", times->reaction, out);
  }
  if (half.cnp_interval_min != kNever) {
    out << "    shortest interval of congestion notifications: "
        << milliseconds(half.cnp_interval_min) << "\n";
  }
  if (const std::uint64_t forgotten = half.stream.gaps_forgotten(); forgotten != 0) {
    out << "    " << with_unit(forgotten, "hole") << " of more than " << PsnGaps::kMax
        << " at a time: not judged\n";
  }
  print_findings(half.findings, first, out);
}

}  // namespace

void print_report(const Verdict& verdict, std::ostream& out) {
  out << with_unit(verdict.frames, "frame") << " in "
      << milliseconds(verdict.frames == 0 ? 0 : verdict.last - verdict.first) << ", "
      << verdict.roce << " RoCEv2\n";
  if (!verdict.damage.empty()) {
    out << "the capture ends early: " << verdict.damage << "\n";
  }
  if (verdict.cut_short != 0) {
    out << with_unit(verdict.cut_short, "frame")
        << " cut short by the capture: judged by their headers, without the ICRC\n";
  }
  if (verdict.unattributed != 0) {
    out << with_unit(verdict.unattributed, "answer")
        << " to what isn't in the capture: not judged\n";
  }
  if (verdict.halves.beyond() != 0) {
    out << with_unit(verdict.halves.beyond(), "packet") << " of more than " << HalfConnections::kMax
        << " queue pairs: not judged\n";
  }
  print_findings(verdict.others, verdict.first, out);
  std::size_t place = 0;
  for (const HalfVerdict& half : verdict.of_half) {
    const auto partner = half.half.partner;
    if (!partner || *partner >= place) {
      out << type_name(half.half.transport) << " " << to_string(half.half.key.from);
      if (partner) {
        out << " QP " << verdict.of_half[*partner].half.key.qpn;
      }
      out << " and " << to_string(half.half.key.to) << " QP " << half.half.key.qpn;
      if (half.half.transport != Transport::kUd) {
        out << ", path MTU " << half.half.mtu;
      }
      out << "\n";
      print_half(half, verdict.first, out);
      if (partner && *partner != place) {
        print_half(verdict.of_half[*partner], verdict.first, out);
      }
    }
    ++place;
  }
  const std::uint64_t faults = verdict.faults();
  if (verdict.roce == 0) {
    out << "nothing was judged: the capture has no RoCEv2 packets\n";
  } else {
    out << (faults == 0 ? "nothing is wrong" : with_unit(faults, "fault")) << "\n";
  }
}

}  // namespace uroce::check
