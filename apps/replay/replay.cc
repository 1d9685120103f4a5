#include "apps/replay/replay.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "apps/replay/describe.h"

namespace uroce::replay {
namespace {

// Longer silence in a capture tells nothing, and its clock may be wrong.
constexpr Duration kSilenceMax = 3'600 * kNanosecondsPerSecond;
constexpr std::size_t kProgressEvery = 256;

class Replay {
 public:
  Replay(const ParsedFrames& frames, const Plan& plan) : frames_(frames), plan_(plan) {
    for (const CardPlan& card : plan.cards) {
      cards_.push_back(std::make_unique<Card>(card));
      const auto problems = cards_.back()->set_up();
      outcome_.notes.insert(outcome_.notes.end(), problems.begin(), problems.end());
    }
  }

  Result<Outcome> run(std::span<const CapturedFrame> captured, Progress* progress) {
    if (progress != nullptr) {
      progress->begin(captured.size());
    }
    Time last = captured.empty() ? 0 : captured.front().time;
    Time now = kNanosecondsPerSecond;
    for (std::size_t i = 0; i < captured.size(); ++i) {
      if (progress != nullptr && i % kProgressEvery == 0 && i != 0) {
        progress->at(i);
      }
      if (captured[i].time > last) {
        now += std::min(captured[i].time - last, kSilenceMax);
      }
      last = captured[i].time;
      outcome_.frames.push_back(frames_[i]->answer() ? compare(*frames_[i]) : receive(i, now));
      outcome_.frames.back().time = captured[i].time;
      for (const Bytes& answer : outcome_.frames.back().fate.answers) {
        answer_bytes_ += answer.size();
      }
      if (answer_bytes_ > kAnswerBytesMax) {
        return Error{EFBIG, "frame " + std::to_string(i + 1) + ": the answers so far have " +
                                std::to_string(answer_bytes_) + " bytes; the limit is " +
                                std::to_string(kAnswerBytesMax)};
      }
    }
    for (auto& card : cards_) {
      for (const std::string& question : card->plan().questions) {
        outcome_.answers.emplace_back(question, card->answer(question));
      }
    }
    return std::move(outcome_);
  }

 private:
  // Whose address the packet is sent to; else the first, which will say that it isn't its own.
  Card* card_for(const ParsedFrame& frame) {
    if (frame.drop == Drop::kNone) {
      const Gid destination = frame.packet().destination_gid();
      for (auto& card : cards_) {
        const auto& addresses = card->plan().addresses;
        if (std::find(addresses.begin(), addresses.end(), destination) != addresses.end()) {
          return card.get();
        }
      }
    }
    return cards_.empty() ? nullptr : cards_.front().get();
  }

  FrameOutcome receive(std::size_t number, Time now) {
    const ParsedFrame& frame = *frames_[number];
    FrameOutcome outcome;
    Card* const card = card_for(frame);
    if (card == nullptr) {
      outcome.fate.kind = Fate::Kind::kDropped;
      outcome.fate.reason = frame.drop == Drop::kNone ? Drop::kNotOurAddress : frame.drop;
      return outcome;
    }
    card->start_queues(number, now);
    if (number < plan_.lost.size() && plan_.lost[number]) {
      outcome.what = FrameOutcome::What::kLost;
      return outcome;
    }
    if (const auto refills = plan_.refills.find(number); refills != plan_.refills.end()) {
      for (const Refill& refill : refills->second) {
        std::memcpy(refill.to, refill.bytes.data(), refill.bytes.size());
      }
    }
    if (number < plan_.supplies_receive.size() && plan_.supplies_receive[number]) {
      card->supply_receive(frame.packet().dest_qpn);
    }
    outcome.fate =
        card->receive(frame.bytes, frame.drop == Drop::kNone ? frame.packet().dest_qpn : 0, now);
    for (const Bytes& bytes : outcome.fate.answers) {
      ++given_[name_of(ParsedFrame(bytes))];
    }
    return outcome;
  }

  // Of an answer: two with the same name are the same, but for what routers may change.
  static std::string name_of(const ParsedFrame& frame) {
    const Packet& packet = frame.packet();
    return to_string(packet.source_gid()) + " > " + to_string(packet.destination_gid()) + " " +
           describe(packet);
  }

  FrameOutcome compare(const ParsedFrame& frame) {
    FrameOutcome outcome;
    const auto found = given_.find(name_of(frame));
    const bool ours = found != given_.end() && found->second != 0;
    if (ours) {
      --found->second;
    }
    outcome.what = ours ? FrameOutcome::What::kAsOurs : FrameOutcome::What::kOther;
    return outcome;
  }

  const ParsedFrames& frames_;
  const Plan& plan_;
  std::vector<std::unique_ptr<Card>> cards_;
  std::map<std::string, std::size_t> given_;  // answers not yet found in the capture
  std::uint64_t answer_bytes_ = 0;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> replay(std::span<const CapturedFrame> captured, const ParsedFrames& frames,
                       const Plan& plan, Progress* progress) {
  return Replay(frames, plan).run(captured, progress);
}

}  // namespace uroce::replay
