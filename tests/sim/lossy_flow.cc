#include "tests/sim/lossy_flow.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace uroce::sim {
namespace {

constexpr std::uint32_t kGrhLength = 40;

}  // namespace

LossyFlow::LossyFlow(const LossyConfig& config, std::uint32_t number, Random& random, Node& from,
                     End& from_end, Node& to, End& to_end)
    : config_(config),
      number_(number),
      seed_(random.next()),
      random_(random),
      from_(from),
      from_end_(from_end),
      to_(to),
      to_end_(to_end),
      sends_(from.arena.reserve(std::size_t{config.send_entries} * config.message_bytes_max)),
      receives_(to.arena.reserve(std::size_t{config.recv_entries} * stride())) {
  post_receives();
}

std::uint32_t LossyFlow::stride() const { return config_.message_bytes_max + kGrhLength; }

std::size_t LossyFlow::arena_bytes(const LossyConfig& config) {
  return std::size_t{config.send_entries + config.recv_entries} *
             (config.message_bytes_max + kGrhLength) +
         4'096;
}

// A message is determined by its number.
std::vector<std::byte> LossyFlow::message(std::uint32_t number) const {
  Random content(seed_ + number);
  const std::uint32_t length =
      content.range(static_cast<std::uint32_t>(sizeof(Head)), config_.message_bytes_max);
  std::vector<std::byte> bytes(length);
  content.fill(bytes);
  const Head head{number_, number, length};
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

void LossyFlow::act() {
  post_receives();
  const std::uint32_t before = posted_;
  for (std::uint32_t burst = random_.range(0, 4);
       burst > 0 && posted_ < config_.messages && posted_ - completed_ < config_.send_entries;
       --burst) {
    post_send();
  }
  if (posted_ != before) {
    from_.ring(from_end_);
  }
}

void LossyFlow::post_receives() {
  for (; receives_posted_ - receives_completed_ < config_.recv_entries; ++receives_posted_) {
    const std::size_t place = receives_ + receives_posted_ % config_.recv_entries * stride();
    const abi::Sge sge{to_.arena.address(place), stride(), to_.key};
    to_end_.queues.post_recv(receives_posted_, {&sge, 1});
  }
}

void LossyFlow::post_send() {
  const std::vector<std::byte> bytes = message(posted_);
  const std::size_t place =
      sends_ + posted_ % config_.send_entries * std::size_t{config_.message_bytes_max};
  std::copy(bytes.begin(), bytes.end(),
            from_.arena.memory.begin() + static_cast<std::ptrdiff_t>(place));
  abi::SendWr wr{};
  wr.wr_id = posted_;
  wr.opcode = random_.chance(0.5) ? abi::WrOpcode::kSend : abi::WrOpcode::kSendWithImm;
  wr.immediate = posted_;
  wr.flags = abi::kSignaled;
  if (config_.datagrams) {
    wr.ud = {.ah = config_.ah,
             .remote_qpn = to_end_.qp.config().qpn,
             .remote_qkey = 0x8000'0000,
             .reserved = 0};
  }
  const abi::Sge sge{from_.arena.address(place), static_cast<std::uint32_t>(bytes.size()),
                     from_.key};
  from_end_.queues.post_send(wr, {&sge, 1});
  ++posted_;
}

std::string LossyFlow::check() {
  while (const auto cqe = from_end_.queues.poll_send()) {
    if (cqe->status != abi::WcStatus::kSuccess || cqe->wr_id != completed_) {
      return "send " + std::to_string(cqe->wr_id) + " completed with status " +
             std::to_string(static_cast<unsigned>(cqe->status)) + "; the next is " +
             std::to_string(completed_);
    }
    ++completed_;
  }
  while (const auto cqe = to_end_.queues.poll_recv()) {
    if (std::string wrong = check_receive(*cqe); !wrong.empty()) {
      return "flow " + std::to_string(number_) + ", receive " + std::to_string(cqe->wr_id) + ": " +
             wrong;
    }
  }
  return {};
}

std::string LossyFlow::check_receive(const abi::Cqe& cqe) {
  if (cqe.status != abi::WcStatus::kSuccess || cqe.wr_id != receives_completed_) {
    return "out of order, or failed";
  }
  const std::size_t place = receives_ + receives_completed_ % config_.recv_entries * stride();
  ++receives_completed_;
  ++received_;
  const std::uint32_t front = config_.datagrams ? kGrhLength : 0;
  const std::byte* bytes = to_.arena.memory.data() + place + front;
  Head head{};
  std::memcpy(&head, bytes, sizeof(head));
  if (cqe.byte_len != head.length + front || head.flow != number_ || head.message >= posted_) {
    return "no message that was sent";
  }
  const std::vector<std::byte> expected = message(head.message);
  if (expected.size() != head.length || !std::equal(expected.begin(), expected.end(), bytes)) {
    return "message " + std::to_string(head.message) + " has other bytes";
  }
  if ((cqe.wc_flags & abi::kWcWithImm) != 0 && cqe.immediate != head.message) {
    return "the immediate of another message";
  }
  if (config_.datagrams && cqe.src_qp != from_end_.qp.config().qpn) {
    return "from the wrong queue pair";
  }
  return {};
}

}  // namespace uroce::sim
