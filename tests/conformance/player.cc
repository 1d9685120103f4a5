#include "tests/conformance/player.h"

#include <cstring>

#include "dataplane/qp/names.h"
#include "dataplane/wire/drop.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kWindowRights =
    kAccessRemoteRead | kAccessRemoteWrite | kAccessRemoteAtomic;
constexpr std::uint64_t kRegionDistance = 0x100'0000;

std::uint32_t rights_of(const std::string& text) {
  std::uint32_t rights = 0;
  rights |= text.find("write") != std::string::npos ? kAccessRemoteWrite : 0U;
  rights |= text.find("read") != std::string::npos ? kAccessRemoteRead : 0U;
  rights |= text.find("atomic") != std::string::npos ? kAccessRemoteAtomic : 0U;
  rights |= text.find("local") != std::string::npos ? kAccessLocalWrite : 0U;
  rights |= text.find("bind") != std::string::npos ? kAccessMwBind : 0U;
  rights |= text.find("global") != std::string::npos ? kAccessFlushGlobal : 0U;
  rights |= text.find("persistent") != std::string::npos ? kAccessFlushPersistent : 0U;
  return rights;
}

std::string wanted(const std::string& what, const std::string& expected, const std::string& got) {
  return what + " is " + got + ", not " + expected;
}

// Compares `value` with the line's value of `name`, if it has one.
std::string compare(const Line& line, const std::string& name, std::uint64_t value) {
  const auto expected = line.number_of(name);
  return expected && *expected != value
             ? wanted(name, std::to_string(*expected), std::to_string(value))
             : "";
}

std::string compare(const Line& line, const std::string& name, const std::string& value) {
  const auto expected = line.text(name);
  return expected && *expected != value ? wanted(name, *expected, value) : "";
}

std::string first_of(std::initializer_list<std::string> differences) {
  for (const std::string& difference : differences) {
    if (!difference.empty()) {
      return difference;
    }
  }
  return "";
}

}  // namespace

Player::Player(const Script& script) : script_(script) {}

std::string Player::play() {
  if (std::string problem = set_up(); !problem.empty()) {
    return problem;
  }
  for (const Line& line : script_.lines) {
    const std::string problem = line.verb == "qp" ? "" : step(line);
    if (!problem.empty()) {
      return script_.file + ":" + std::to_string(line.number) + ": " + problem;
    }
  }
  return finish();
}

// The line `qp` may occur once, anywhere before the packets.
std::string Player::set_up() {
  QpRig::Options options;
  for (const Line& line : script_.lines) {
    if (line.verb != "qp") {
      continue;
    }
    QpAttributes& attributes = options.attributes;
    attributes.path_mtu = static_cast<std::uint32_t>(line.number_of("mtu").value_or(1024));
    attributes.rq_psn = static_cast<std::uint32_t>(line.number_of("psn").value_or(100));
    attributes.max_dest_rd_atomic =
        static_cast<std::uint8_t>(line.number_of("rd_atomic").value_or(4));
    attributes.min_rnr_timer = static_cast<std::uint8_t>(line.number_of("rnr").value_or(12));
    if (line.has("access")) {
      attributes.access = rights_of(*line.text("access"));
    }
    attributes.qkey = static_cast<std::uint32_t>(line.number_of("qkey").value_or(attributes.qkey));
    if (line.has("type")) {
      const auto type = type_by_name(*line.text("type"));
      if (!type) {
        return "no such type";
      }
      options.type = *type;
    }
    options.shared_receive_queue = line.has("srq");
    if (line.has("state")) {
      const auto state = state_by_name(*line.text("state"));
      if (!state) {
        return "no such state";
      }
      options.state = *state;
    }
  }
  rig_ = std::make_unique<QpRig>(options);
  return "";
}

std::string Player::step(const Line& line) {
  using Step = std::string (Player::*)(const Line&);
  static const std::map<std::string, Step> kSteps = {
      {"region", &Player::add_region},
      {"remove", &Player::remove_region},
      {"remove_srq", &Player::remove_srq},
      {"recv", &Player::post_receive},
      {">", &Player::deliver},
      {"<", &Player::expect_packet},
      {"silence", &Player::expect_silence},
      {"=", &Player::expect_completion},
      {"event", &Player::expect_event},
      {"state", &Player::expect_state},
      {"memory", &Player::expect_memory},
      {"modify", &Player::move_to},
      {"window", &Player::add_window},
  };
  const auto found = kSteps.find(line.verb);
  return found == kSteps.end() ? "no such verb: " + line.verb : (this->*found->second)(line);
}

std::string Player::add_region(const Line& line) {
  auto memory = std::make_unique<Memory>();
  memory->bytes = pattern(0, line.number_of("length").value_or(0));
  memory->iova = line.number_of("iova").value_or(kRegionDistance * (regions_.size() + 1));
  const std::uint32_t access = line.has("access")
                                   ? rights_of(*line.text("access"))
                                   : kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                         kAccessRemoteAtomic | kAccessMwBind;
  memory->key = rig_->add_region(memory->bytes, memory->iova, access,
                                 line.has("other_pd") ? QpRig::kPd + 1 : QpRig::kPd);
  regions_[line.subject()] = std::move(memory);
  return "";
}

// Removes the shared receive queue of an XRC domain.
std::string Player::remove_srq(const Line& /*line*/) {
  rig_->qp().forget_srq(QpRig::kSrqn);
  rig_->xrc_domain.remove(QpRig::kSrqn);
  return "";
}

// Allocates a window and binds it as a work request of this queue pair would, or of another.
std::string Player::add_window(const Line& line) {
  const auto type =
      line.number_of("type").value_or(2) == 1 ? WindowType::kType1 : WindowType::kType2;
  const PdId pd = line.has("other_pd") ? QpRig::kPd + 1 : QpRig::kPd;
  auto window = std::make_unique<Memory>();
  window->key = *rig_->keys.windows().add(pd, type);
  if (line.has("of")) {
    const Place of = place(*line.text("of"));
    std::uint32_t access = line.has("access") ? rights_of(*line.text("access")) : kWindowRights;
    access |= line.has("zero_based") ? kAccessZeroBased : 0U;
    window->iova = line.has("zero_based") ? 0 : of.memory->iova + of.offset;
    const KeyUser user{.pd = pd, .qpn = line.has("other_qp") ? QpRig::kQpn + 1 : QpRig::kQpn};
    const WindowBind bind{.new_key = window->key,
                          .lkey = of.memory->key,
                          .address = of.memory->iova + of.offset,
                          .length = of.length,
                          .access = access};
    if (rig_->keys.bind_window(window->key, bind, user) != WindowChange::kDone) {
      return "the window can't be bound";
    }
  }
  regions_[line.subject()] = std::move(window);
  return "";
}

// Only the registration is removed: the memory stays, and its name remains valid for `at=`.
std::string Player::remove_region(const Line& line) {
  rig_->remove_region(regions_.at(line.subject())->key);
  return "";
}

std::string Player::post_receive(const Line& line) {
  std::vector<abi::Sge> sges;
  for (const auto& [name, value] : line.words) {
    if (name != "to") {
      continue;
    }
    const Place to = place(value);
    sges.push_back({.address = to.memory->iova + to.offset,
                    .length = static_cast<std::uint32_t>(to.length),
                    .lkey = to.memory->key});
  }
  rig_->receives.post_receive(to_number(line.subject()), sges);
  return "";
}

std::string Player::deliver(const Line& line) {
  if (!sent_.empty()) {
    return "a packet was sent that the case didn't expect: " +
           name_of(sent_.front().packet().opcode);
  }
  const auto opcode = opcode_by_name(line.subject());
  if (!opcode) {
    return "no such opcode";
  }
  Headers headers;
  headers.opcode = *opcode;
  headers.psn = static_cast<std::uint32_t>(line.number_of("psn").value_or(0));
  headers.ack_request = line.has("ack");
  headers.solicited = line.has("solicited");
  headers.immediate =
      __builtin_bswap32(static_cast<std::uint32_t>(line.number_of("imm").value_or(0)));
  headers.pkey = static_cast<std::uint16_t>(line.number_of("pkey").value_or(0xFFFF));
  headers.invalidate_rkey = key_of(line, "invalidate").value_or(0);
  headers.feth = {
      .placement = static_cast<std::uint8_t>(line.number_of("placement").value_or(1)),
      .selectivity = static_cast<std::uint8_t>(line.number_of("selectivity").value_or(0))};
  headers.deth = {
      .qkey =
          static_cast<std::uint32_t>(line.number_of("qkey").value_or(rig_->qp().attributes().qkey)),
      .source_qpn = static_cast<std::uint32_t>(line.number_of("src_qp").value_or(QpRig::kPeerQpn))};
  headers.xrc_srqn = static_cast<std::uint32_t>(line.number_of("srq").value_or(QpRig::kSrqn));
  if (line.has("at")) {
    const Place at = place(*line.text("at"));
    const auto rkey = static_cast<std::uint32_t>(line.number_of("rkey").value_or(at.memory->key));
    const std::uint64_t address = at.memory->iova + at.offset;
    headers.reth = {
        .address = address, .rkey = rkey, .length = static_cast<std::uint32_t>(at.length)};
    headers.atomic_eth = {
        .address = address,
        .rkey = rkey,
        .swap_add = line.number_of("swap").value_or(line.number_of("add").value_or(0)),
        .compare = line.number_of("compare").value_or(0)};
  }
  const std::size_t length = line.number_of("payload").value_or(0);
  const Bytes payload =
      pattern(static_cast<std::uint32_t>(line.number_of("seed").value_or(headers.psn)), length);
  if (rig_->receive(headers, payload, line.has("stranger")) != Step::kDone) {
    return "the packet was parked";
  }
  return compare(line, "drop", std::string(kDropTexts[rig_->last_drop()].name));
}

void Player::transmit() {
  for (SentPacket& packet : rig_->transmit()) {
    sent_.push_back(std::move(packet));
  }
}

std::string Player::expect_packet(const Line& line) {
  if (sent_.empty()) {
    transmit();
  }
  if (sent_.empty()) {
    return "nothing was sent";
  }
  const SentPacket sent = std::move(sent_.front());
  sent_.pop_front();
  return response_difference(line, sent);
}

std::string Player::response_difference(const Line& line, const SentPacket& sent) {
  const Packet& packet = sent.packet();
  const OpcodeInfo& info = opcode_info(packet.opcode);
  if (line.subject() != name_of(packet.opcode)) {
    return wanted("the packet", line.subject(), name_of(packet.opcode));
  }
  std::string aeth;
  if (info.has(Extension::kAeth)) {
    aeth = first_of({compare(line, "syndrome", syndrome_name(packet.aeth().syndrome)),
                     compare(line, "msn", packet.aeth().msn)});
  }
  std::string content;
  if (line.has("from")) {
    const Place from = place(*line.text("from"));
    if (std::memcmp(packet.payload, from.memory->bytes.data() + from.offset,
                    packet.payload_length) != 0) {
      content = "the payload isn't what the region holds";
    }
  }
  return first_of(
      {compare(line, "psn", packet.psn), aeth, compare(line, "payload", packet.payload_length),
       content,
       info.has(Extension::kAtomicAckEth) ? compare(line, "original", packet.atomic_ack()) : "",
       packet.dest_qpn != QpRig::kPeerQpn ? "it goes to another queue pair" : ""});
}

std::string Player::expect_silence(const Line& /*line*/) {
  transmit();
  return sent_.empty() ? "" : "it sent " + name_of(sent_.front().packet().opcode);
}

std::string Player::expect_completion(const Line& line) {
  for (const abi::Cqe& cqe : rig_->receive_completions.poll_all()) {
    completions_.push_back(cqe);
  }
  if (completions_.empty()) {
    return "no completion";
  }
  const abi::Cqe cqe = completions_.front();
  completions_.pop_front();
  return first_of(
      {compare(line, "wr", cqe.wr_id), compare(line, "status", name_of(cqe.status)),
       compare(line, "opcode", name_of(cqe.opcode)), compare(line, "length", cqe.byte_len),
       compare(line, "imm", __builtin_bswap32(cqe.immediate)), compare(line, "qp", cqe.qp_num),
       compare(line, "src_qp", cqe.src_qp),
       line.has("grh") && (cqe.wc_flags & abi::kWcGrh) == 0 ? "the completion shows no GRH" : "",
       line.has("invalidated") && ((cqe.wc_flags & abi::kWcWithInv) == 0 ||
                                   key_of(line, "invalidated") != cqe.immediate)
           ? "the completion doesn't tell of this invalidation"
           : ""});
}

std::string Player::expect_event(const Line& line) {
  auto& events = rig_->events.entries;
  if (events.empty()) {
    return "no event";
  }
  const AsyncEvent event = events.front().event;
  events.erase(events.begin());
  return line.subject() == name_of(event) ? ""
                                          : wanted("the event", line.subject(), name_of(event));
}

std::string Player::expect_state(const Line& line) {
  const std::string state = name_of(rig_->qp().state());
  return line.subject() == state ? "" : wanted("the state", line.subject(), state);
}

std::string Player::expect_memory(const Line& line) {
  const Place at = place(line.subject());
  const std::byte* start = at.memory->bytes.data() + at.offset;
  if (const auto value = line.number_of("value")) {
    std::uint64_t found = 0;
    std::memcpy(&found, start, sizeof(found));
    return found == *value ? "" : wanted("memory", std::to_string(*value), std::to_string(found));
  }
  const auto seed = line.number_of("seed");
  const std::size_t skip = line.number_of("skip").value_or(seed ? 0 : at.offset);
  const Bytes expected = pattern(static_cast<std::uint32_t>(seed.value_or(0)), skip + at.length);
  return std::memcmp(start, expected.data() + skip, at.length) == 0
             ? ""
             : "memory differs from the pattern";
}

std::string Player::move_to(const Line& line) {
  const auto state = state_by_name(line.subject());
  if (!state) {
    return "no such state";
  }
  rig_->to_state(*state);
  return "";
}

std::string Player::finish() {
  transmit();
  if (!sent_.empty()) {
    return "at the end, " + name_of(sent_.front().packet().opcode) + " was sent";
  }
  if (!completions_.empty() || rig_->receive_completions.poll()) {
    return "at the end, a completion is left";
  }
  if (!rig_->events.entries.empty()) {
    return "at the end, the event " + name_of(rig_->events.entries.front().event) + " is left";
  }
  return "";
}

// A key, given as a number or by the name of a region or window.
std::optional<std::uint32_t> Player::key_of(const Line& line, const std::string& word) const {
  const auto text = line.text(word);
  if (!text) {
    return std::nullopt;
  }
  const auto named = regions_.find(*text);
  return named != regions_.end() ? named->second->key
                                 : static_cast<std::uint32_t>(to_number(*text));
}

Player::Place Player::place(const std::string& text) {
  const std::size_t plus = text.find('+');
  const std::size_t colon = text.find(':');
  Place place;
  place.memory = regions_.at(text.substr(0, std::min(plus, colon))).get();
  if (plus != std::string::npos) {
    place.offset = to_number(text.substr(plus + 1, colon - plus - 1));
  }
  if (colon != std::string::npos) {
    place.length = to_number(text.substr(colon + 1));
  }
  return place;
}

}  // namespace uroce::test
