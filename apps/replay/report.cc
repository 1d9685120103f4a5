#include "apps/replay/report.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <string>

#include "apps/replay/describe.h"
#include "dataplane/qp/names.h"

namespace uroce::replay {
namespace {

std::string rights_text(std::uint32_t access) {
  std::string text;
  for (const auto& [right, name] :
       {std::pair(kAccessLocalWrite, "local"), std::pair(kAccessRemoteRead, "read"),
        std::pair(kAccessRemoteWrite, "write"), std::pair(kAccessRemoteAtomic, "atomic")}) {
    if ((access & right) != 0) {
      text.append(text.empty() ? "" : "+").append(name);
    }
  }
  return text;
}

const char* type_name(QpType type) {
  return type == QpType::kUc ? "UC" : type == QpType::kUd ? "UD" : "RC";
}

// As IPv4 where it is.
void print_card(const CardPlan& card, std::ostream& out) {
  out << "card mac=" << to_string(card.mac);
  for (const Gid& address : card.addresses) {
    out << " ip=" << to_string(address);
  }
  out << (card.vlan == 0 ? "" : " vlan=" + std::to_string(card.vlan)) << "\n";
  for (const RegionPlan& region : card.regions) {
    out << "region " << region.name << " key=" << region.key << " iova=" << region.iova
        << " length=" << region.memory->length() << " access=" << rights_text(region.access)
        << (region.other_pd ? " other_pd" : "") << "\n";
  }
  for (const QueuePlan& queue : card.queues) {
    const QpAttributes& attributes = queue.attributes;
    out << "qp " << queue.name << " peer=" << to_string(attributes.path.destination_gid)
        << " qpn=" << queue.qpn << " type=" << type_name(queue.type)
        << " peer_qpn=" << attributes.dest_qpn << " psn=" << attributes.rq_psn
        << " mtu=" << attributes.path_mtu
        << " rd_atomic=" << static_cast<unsigned>(attributes.max_dest_rd_atomic)
        << " rnr=" << static_cast<unsigned>(attributes.min_rnr_timer);
    if (queue.type == QpType::kUd) {
      out << " qkey=" << attributes.qkey;
    }
    out << (queue.state == QpState::kRts ? "" : " state=" + name_of(queue.state)) << "\n";
  }
}

std::string frame_text(const ParsedFrame& frame) {
  if (frame.drop != Drop::kNone) {
    return "frame of " + std::to_string(frame.bytes.size()) + " bytes";
  }
  const Packet& packet = frame.packet();
  return to_string(packet.source_gid()) + " > " + to_string(packet.destination_gid()) + " " +
         describe(packet);
}

bool draws_rnr_nak(const Fate& fate) {
  return std::any_of(fate.answers.begin(), fate.answers.end(),
                     [](const Bytes& answer) { return is_rnr_nak(ParsedFrame(answer).packet()); });
}

const FailureReport* refusal(const Fate& fate) {
  const auto found = std::find_if(
      fate.failures.begin(), fate.failures.end(),
      [](const FailureReport& failure) { return failure.failure != Failure::kFlushed; });
  return found == fate.failures.end() ? nullptr : &*found;
}

// By which it is counted, and the explanation.
std::pair<std::string, std::string> fate_text(const Fate& fate) {
  switch (fate.kind) {
    case Fate::Kind::kReceived:
      if (const FailureReport* const failure = refusal(fate); failure != nullptr) {
        const FailureText& text = kFailureTexts[failure->failure];
        return {std::string("refused.").append(text.name), std::string(text.explanation)};
      }
      return {fate.duplicate ? "duplicate" : draws_rnr_nak(fate) ? "no_receive" : "accepted", ""};
    case Fate::Kind::kDropped: {
      const DropText& text = kDropTexts[fate.reason];
      return {std::string("dropped.").append(text.name), std::string(text.explanation)};
    }
    case Fate::Kind::kControl:
      return {"control", "not RoCE"};
    case Fate::Kind::kMad:
      return {"control", "a management datagram"};
    case Fate::Kind::kTooLong:
      return {"too_long", "longer than any frame of the port"};
  }
  return {};
}

// Runs of MIDDLE packets are told in one line.
void print_answers(const std::vector<Bytes>& answers, std::ostream& out) {
  for (std::size_t i = 0; i < answers.size();) {
    const ParsedFrame first(answers[i]);
    out << "    answers " << frame_text(first);
    std::size_t run = 1;
    while (first.answer() && first.packet().opcode == Opcode::kRcReadResponseMiddle &&
           i + run < answers.size() &&
           ParsedFrame(answers[i + run]).packet().opcode == Opcode::kRcReadResponseMiddle) {
      ++run;
    }
    out << (run > 1 ? " and " + std::to_string(run - 1) + " more" : "") << "\n";
    i += run;
  }
}

using Counts = std::map<std::string, std::size_t>;

void print_fate(const Fate& fate, Counts& counts, std::ostream& out) {
  const auto [name, explanation] = fate_text(fate);
  ++counts[name];
  counts["answers"] += fate.answers.size();
  out << name << (explanation.empty() ? "" : " (" + explanation + ")") << "\n";
  print_answers(fate.answers, out);
  for (const abi::Cqe& completion : fate.completions) {
    out << "    completes " << describe(completion) << "\n";
  }
  if (fate.state) {
    out << "    queue pair goes to " << name_of(*fate.state) << "\n";
  }
}

void print_outcome(const FrameOutcome& outcome, Counts& counts, std::ostream& out) {
  using What = FrameOutcome::What;
  switch (outcome.what) {
    case What::kReceived:
      return print_fate(outcome.fate, counts, out);
    case What::kLost:
      out << "lost behind the place of capture: a NAK asks for it\n";
      ++counts["lost"];
      return;
    case What::kAsOurs:
      out << "recorded answer, as ours\n";
      ++counts["recorded.as_ours"];
      return;
    case What::kOther:
      out << "recorded answer, not ours\n";
      ++counts["recorded.other"];
      return;
  }
}

}  // namespace

void print_report(const ParsedFrames& frames, const Plan& plan, const Outcome& outcome,
                  std::ostream& out) {
  for (const CardPlan& card : plan.cards) {
    print_card(card, out);
  }
  for (const auto* notes : {&plan.notes, &outcome.notes}) {
    for (const std::string& note : *notes) {
      out << "# " << note << "\n";
    }
  }
  Counts counts;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    out << i + 1 << " " << frame_text(*frames[i]) << ": ";
    print_outcome(outcome.frames[i], counts, out);
  }
  for (const auto& [question, answer] : outcome.answers) {
    out << "? " << question << "\n" << answer;
  }
  out << "frames=" << frames.size();
  for (const auto& [name, count] : counts) {
    out << " " << name << "=" << count;
  }
  out << "\n";
}

}  // namespace uroce::replay
