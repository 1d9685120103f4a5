#include "tests/fuzz/qp_subject.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "dataplane/qp/opcode_for.h"
#include "dataplane/wire/sack.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kRemoteRights = kAccessRemoteWrite | kAccessRemoteRead |
                                        kAccessRemoteAtomic | kAccessFlushGlobal |
                                        kAccessFlushPersistent;
constexpr std::uint32_t kAllRights = kAccessLocalWrite | kAccessMwBind | kRemoteRights;

QpRig::Options options(QpType type, const AddressTable* addresses) {
  QpRig::Options options;
  options.type = type;
  options.addresses = addresses;
  options.attributes.path_mtu = QpSubject::kMtu;
  options.attributes.access = kRemoteRights;
  options.receive_entries = 16;
  options.send_entries = 16;
  options.cq_entries = 64;
  options.sge_max = 4;
  options.inline_max = 64;
  return options;
}

std::map<Transport, std::vector<Opcode>> all_opcodes() {
  std::map<Transport, std::vector<Opcode>> opcodes;
  for (std::size_t i = 0; i < kOpcodeTable.size(); ++i) {
    if (kOpcodeTable[i].operation != Operation::kInvalid) {
      opcodes[kOpcodeTable[i].transport].push_back(static_cast<Opcode>(i));
    }
  }
  return opcodes;
}

}  // namespace

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "fuzzer: %s\n", what);
    std::abort();
  }
}

QpSubject::QpSubject(QpType type)
    : type_(type),
      memory_(pattern(1, kRegionLength)),
      untouched_(pattern(2, kRegionLength)),
      rig_(std::make_unique<QpRig>(options(type, &addresses_))) {
  keys_ = {rig_->add_region(memory_, kIova, kAllRights),
           rig_->add_region(untouched_, kIova, kAllRights, QpRig::kPd + 1),
           rig_->add_region(untouched_, kIova, 0)};
  for (const WindowType window : {WindowType::kType2, WindowType::kType2, WindowType::kType1}) {
    windows_.push_back(rig_->keys.windows().add(QpRig::kPd, window).value());
  }
  for (const PdId pd : {QpRig::kPd, QpRig::kPd + 1}) {
    (void)addresses_.put(
        static_cast<std::uint32_t>(pd),
        std::make_unique<AddressVector>(AddressVector{pd, FrameTemplate(local_path())}));
  }
}

QpSubject::~QpSubject() {
  require(untouched_ == pattern(2, kRegionLength), "memory was written without a right to it");
}

std::uint64_t QpSubject::address(ByteSource& source) {
  return source.below(16) == 0 ? source.take<std::uint64_t>()
                               : kIova + source.below(kRegionLength + 8);
}

std::uint32_t QpSubject::key(ByteSource& source) {
  const std::uint32_t choice = source.below(32);
  if (choice == 0) {
    return source.take<std::uint32_t>();
  }
  if (choice < 6) {
    return choice < 3 ? keys_[choice] : windows_[choice - 3];
  }
  return keys_[0];
}

void QpSubject::change_window(ByteSource& source) {
  std::uint32_t& window = windows_[source.below(static_cast<std::uint32_t>(windows_.size()))];
  const KeyUser user{.pd = QpRig::kPd, .qpn = source.flag() ? QpRig::kQpn : QpRig::kPeerQpn};
  if (source.flag()) {
    (void)rig_->keys.invalidate(window, user, false);
    return;
  }
  const WindowBind bind{.new_key = source.take<std::uint8_t>(),
                        .lkey = key(source),
                        .address = address(source),
                        .length = length(source),
                        .access = source.flag() ? kRemoteRights : source.take<std::uint16_t>()};
  if (rig_->keys.bind_window(window, bind, user) == WindowChange::kDone) {
    constexpr std::uint32_t kTag = Window::kTagMask;
    window = (window & ~kTag) | (bind.new_key & kTag);
  }
}

std::uint32_t QpSubject::length(ByteSource& source) {
  return source.below(16) == 0 ? source.take<std::uint32_t>() : source.below(4 * kMtu);
}

void QpSubject::receive(ByteSource& source) {
  static const std::map<Transport, std::vector<Opcode>> kOpcodes = all_opcodes();
  const std::vector<Opcode>& opcodes = kOpcodes.at(transport_of(type_));
  Headers headers;
  headers.opcode = opcodes[source.below(static_cast<std::uint32_t>(opcodes.size()))];
  headers.dest_qpn = QpRig::kQpn;
  headers.solicited = source.flag();
  headers.ack_request = source.flag();
  const OpcodeInfo& info = opcode_info(headers.opcode);
  // Requests around the expected PSN (which accepted packets advance), responses around what may be
  // outstanding.
  const std::uint32_t base = info.request ? rig_->qp().expected_psn() : 5'000;
  headers.psn = source.below(32) == 0
                    ? source.take<std::uint32_t>() & kPsnMask
                    : psn_add(base, info.request ? source.take<std::uint8_t>() % 4 + kPsnMask
                                                 : source.take<std::uint8_t>() % 64U);
  headers.reth = {.address = address(source), .rkey = key(source), .length = length(source)};
  headers.atomic_eth = {
      .address = source.flag() ? kIova + 8ULL * source.below(64) : address(source),
      .rkey = headers.reth.rkey,
      .swap_add = source.take<std::uint8_t>(),
      .compare = source.take<std::uint8_t>()};
  headers.aeth = {.syndrome = source.take<std::uint8_t>(), .msn = source.take<std::uint8_t>()};
  headers.immediate = source.take<std::uint8_t>();
  const std::uint32_t shape = source.below(4);
  const std::uint32_t payload_length = !info.payload ? 0
                                       : shape < 2   ? kMtu
                                                     : source.below(kMtu + 8);
  if (shape == 1) {
    headers.reth.length = payload_length;
  }
  if (type_ == QpType::kUd) {
    const std::uint32_t qkey = rig_->qp().attributes().qkey;
    headers.deth = {.qkey = source.below(8) == 0 ? source.take<std::uint32_t>() : qkey,
                    .source_qpn = source.take<std::uint8_t>()};
  }
  if (info.has(Extension::kXrcEth)) {
    headers.xrc_srqn = source.below(16) == 0 ? source.take<std::uint32_t>() : QpRig::kSrqn;
  }
  if (info.has(Extension::kIeth)) {
    headers.invalidate_rkey = key(source);
  }
  if (info.has(Extension::kFeth)) {
    headers.feth = {.placement = source.take<std::uint8_t>(),
                    .selectivity = static_cast<std::uint8_t>(source.below(4))};
  }
  rig_->receive_if_it_parses(headers, pattern(headers.psn, payload_length));
}

void QpSubject::receive_sack_packet(ByteSource& source) {
  if (source.below(4) == 0) {
    rig_->receive_if_it_parses({.opcode = Opcode::kSackRequest, .dest_qpn = QpRig::kQpn},
                               sack_request());
    return;
  }
  Sack sack{.serial = source.take<std::uint8_t>(), .psns = 1 + source.below(Sack::kSpan)};
  sack.received.set(sack.psns - 1);
  for (std::uint32_t bit = 0; bit < sack.psns; bit += 1 + source.below(4)) {
    sack.received.set(bit);
  }
  std::array<std::byte, kSackBytesMax> payload;
  const std::size_t length = write_sack(sack, payload);
  const Headers headers{.opcode = Opcode::kSack,
                        .dest_qpn = QpRig::kQpn,
                        .psn = psn_add(5'000, source.take<std::uint8_t>() % 64U + kPsnMask - 8)};
  rig_->receive_if_it_parses(headers,
                             std::span(payload).first(source.flag() ? length : length / 8 * 4));
}

void QpSubject::transmit(ByteSource& source) {
  (void)rig_->transmit(1U + source.below(4'096), 1U + source.below(64));
}

void QpSubject::wait(ByteSource& source) {
  rig_->now += source.take<std::uint32_t>();
  const Time deadline = rig_->qp().deadline();
  if (deadline != kNever && source.flag()) {
    rig_->now = std::max(rig_->now, deadline);
  }
  if (deadline <= rig_->now) {
    Turn turn = rig_->turn();
    rig_->qp().on_deadline(turn);
  }
}

bool QpSubject::modify(ByteSource& source) {
  const QpState state = rig_->qp().state();
  switch (source.below(4)) {
    case 0:
      rig_->to_state(QpState::kReset);
      rig_->to_state(QpState::kInit);
      rig_->to_state(QpState::kRtr);
      rig_->to_state(QpState::kRts);
      return true;
    case 1:
      if (state == QpState::kRts) {
        rig_->to_state(QpState::kSqd);
      }
      break;
    case 2:
      if (state == QpState::kSqd || state == QpState::kSqe) {
        rig_->to_state(QpState::kRts);
      }
      break;
    default:
      rig_->to_state(QpState::kErr);
  }
  return false;
}

void QpSubject::deregister_and_register() {
  rig_->remove_region(keys_[0]);
  keys_[0] = rig_->add_region(memory_, kIova, kAllRights);
}

}  // namespace uroce::test
