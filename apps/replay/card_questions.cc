// What a script asks of its card when all frames have come. The answers are the console's.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apps/replay/card.h"
#include "dataplane/qp/names.h"

namespace uroce::replay {
namespace {

using console::Words;

std::string completion_text(const abi::Cqe& completion) {
  std::string text = "wr=" + std::to_string(completion.wr_id) +
                     " status=" + name_of(completion.status) +
                     " qp=" + std::to_string(completion.qp_num);
  if (completion.status != abi::WcStatus::kSuccess) {
    return text + "\n";
  }
  text +=
      " opcode=" + name_of(completion.opcode) + " length=" + std::to_string(completion.byte_len);
  if ((completion.wc_flags & abi::kWcWithImm) != 0) {
    text += " imm=" + std::to_string(__builtin_bswap32(completion.immediate));
  }
  if ((completion.wc_flags & abi::kWcWithInv) != 0) {
    text += " invalidated=" + std::to_string(completion.immediate);
  }
  if ((completion.wc_flags & abi::kWcGrh) != 0) {
    text += " grh=yes";
  }
  if (completion.src_qp != 0) {
    text += " source_qp=" + std::to_string(completion.src_qp);
  }
  return text + "\n";
}

Error no_queue() { return {EINVAL, "the question names no queue pair of the script"}; }

}  // namespace

Card::End* Card::end_of(const std::string& name) {
  const auto found = std::find_if(plan_.queues.begin(), plan_.queues.end(),
                                  [&](const QueuePlan& queue) { return queue.name == name; });
  return found == plan_.queues.end() ? nullptr : end_of(found->qpn);
}

Result<std::string> Card::memory(Words& words) const {
  const auto place = console::parse_place(words.next_name());
  const auto seed = words.number_if_there("seed");
  const std::uint64_t skip = words.number("skip", 0);
  if (Status status = words.check(); !status || !place) {
    return !status ? status.error() : place.error();
  }
  for (const RegionPlan& region : plan_.regions) {
    const std::uint64_t all = region.memory->length();
    if (region.name == place->region && place->offset <= all &&
        place->length.value_or(0) <= all - place->offset) {
      return console::memory_text(region.memory->data() + place->offset,
                                  place->length.value_or(all - place->offset), seed, skip);
    }
  }
  return Error{EINVAL, "the question names no place of a region of the script"};
}

Result<std::string> Card::show(Words& words) {
  const std::string name = words.next_name();
  End* const end = end_of(name);
  if (Status status = words.check(); !status || end == nullptr) {
    return !status ? status.error() : no_queue();
  }
  const QpAttributes& attributes = end->qp.attributes();
  return "qp=" + name + " qpn=" + std::to_string(end->qp.config().qpn) +
         " state=" + name_of(attributes.state) +
         " peer_qpn=" + std::to_string(attributes.dest_qpn) +
         " psn=" + std::to_string(end->qp.expected_psn()) + "\n";
}

Result<std::string> Card::poll(Words& words) {
  End* const end = end_of(words.next_name());
  const std::string side = words.next_name();
  (void)words.number("wait", 0);  // nothing comes any more
  if (Status status = words.check(); !status || end == nullptr || side != "recv") {
    return !status ? status.error() : no_queue();
  }
  if (end->completions.empty()) {
    return std::string("completion=none\n");
  }
  const abi::Cqe completion = end->completions.front();
  end->completions.pop_front();
  return completion_text(completion);
}

Result<std::string> Card::event(Words& words) {
  (void)words.number("wait", 0);
  if (Status status = words.check(); !status) {
    return status.error();
  }
  if (events_.empty()) {
    return std::string("event=none\n");
  }
  const AsyncEvent event = events_.front();
  events_.pop_front();
  return "event=" + name_of(event) + "\n";
}

Result<std::string> Card::counters(Words& words) const {
  if (Status status = words.check(); !status) {
    return status.error();
  }
  const WorkerCounters& counters = worker_->counters();
  std::string text = "rx_frames=" + std::to_string(counters.rx_frames) +
                     " tx_frames=" + std::to_string(counters.tx_frames) + "\n";
  for (std::size_t reason = 0; reason < kDropCount; ++reason) {
    if (counters.drops[reason] != 0) {
      text.append("drop.").append(kDropTexts[reason].name).append("=");
      text += std::to_string(counters.drops[reason]) + "\n";
    }
  }
  return text;
}

std::string Card::answer(const std::string& question) {
  Words words(question);
  const std::string verb = words.next_name();
  const auto answer = verb == "memory"  ? memory(words)
                      : verb == "show"  ? show(words)
                      : verb == "poll"  ? poll(words)
                      : verb == "event" ? event(words)
                                        : counters(words);
  return answer ? *answer : std::string("error=").append(answer.error().message) + "\n";
}

}  // namespace uroce::replay
