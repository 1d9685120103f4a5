// Every opcode after every other, in every state of a queue pair of each type. The expected result
// comes from a table of the specification's rules that is written down here, independent of the
// implementation's.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint32_t kFirstPsn = 100;
constexpr std::uint32_t kTailBytes = 8;
constexpr std::uint64_t kIova = 0x10000;

// IBTA vol. 1, table 38: the meaning of an opcode's low five bits, one letter each. s m l o: FIRST,
// MIDDLE, LAST, ONLY of a SEND; W M L O: of a WRITE; q: READ or atomic; a: a response; e: FLUSH and
// ATOMIC WRITE (annex A19); a dot: reserved.
constexpr std::string_view kKinds = "smllooWMLLOOqaaaaaaqq.lo....ee..";
static_assert(kKinds.size() == 32);

constexpr unsigned kRc = 0, kUc = 1, kUd = 3, kCongestion = 4, kXrc = 5;

// The upper three bits of the opcodes that a queue pair accepts.
unsigned transport_of(QpType type) {
  switch (type) {
    case QpType::kUc:
      return kUc;
    case QpType::kUd:
      return kUd;
    case QpType::kXrcRecv:
      return kXrc;
    default:
      return kRc;
  }
}

bool is_defined(unsigned opcode) {
  const unsigned low = opcode & 0x1FU;
  switch (opcode >> 5U) {
    case kRc:
      return kKinds[low] != '.';
    case kUc:
      return low <= 0x0B;
    case kUd:
      return low == 0x04 || low == 0x05;
    case kCongestion:
      return low == 0x01;
    case kXrc:
      return kKinds[low] != '.' && kKinds[low] != 'e';
    default:
      return false;
  }
}

enum class Message { kNone, kSend, kWrite };

// The result for a packet with the expected PSN.
enum class Fate { kTaken, kRefused, kTakenOrRefused, kDropped };
struct Expected {
  Fate fate;
  Drop drop = Drop::kNone;
};

// Annex A17.9.3: a CNP is about packets sent on the connection; UC, which doesn't respond, has sent
// none here.
Expected expected_of_notification(QpType type, QpState state) {
  if (type == QpType::kUd) {
    return {Fate::kDropped, Drop::kWrongQpType};
  }
  if (state == QpState::kReset || state == QpState::kInit || state == QpState::kErr) {
    return {Fate::kDropped, Drop::kWrongQpState};
  }
  return type == QpType::kUc ? Expected{Fate::kDropped, Drop::kStaleResponse}
                             : Expected{Fate::kTaken};
}

// 9.6 and 9.7.4.1 in the order of their checks; 9.8.2.2.1 for UC, where an incomplete message is
// dropped.
Expected expected(QpType type, unsigned opcode, Message message, QpState state) {
  if (!is_defined(opcode)) {
    return {Fate::kDropped, Drop::kUnknownOpcode};
  }
  if (opcode >> 5U == kCongestion) {
    return expected_of_notification(type, state);
  }
  const char kind = kKinds[opcode & 0x1FU];
  const bool answers_a_receiver = kind == 'a' && type == QpType::kXrcRecv;
  if (opcode >> 5U != transport_of(type) || answers_a_receiver) {
    return {Fate::kDropped, Drop::kWrongQpType};
  }
  const bool may_receive = state == QpState::kRtr || state == QpState::kRts ||
                           state == QpState::kSqd || state == QpState::kSqe;
  if (!may_receive || (kind == 'a' && state == QpState::kRtr)) {
    return {Fate::kDropped, Drop::kWrongQpState};
  }
  const bool unreliable = type == QpType::kUc || type == QpType::kUd;
  const Expected out_of_place =
      unreliable ? Expected{Fate::kDropped, Drop::kOutOfSequence} : Expected{Fate::kRefused};
  switch (kind) {
    case 'a':
      return {Fate::kDropped, Drop::kStaleResponse};
    case 'm':
    case 'l':
      return message == Message::kSend ? Expected{Fate::kTaken} : out_of_place;
    case 'M':
    case 'L':
      return message == Message::kWrite ? Expected{Fate::kTaken} : out_of_place;
    case 'e':
      // Whether the peer has the right isn't tested here.
      return {message == Message::kNone ? Fate::kTakenOrRefused : Fate::kRefused};
    default:  // starts a message
      return message == Message::kNone || unreliable ? Expected{Fate::kTaken} : out_of_place;
  }
}

std::uint32_t payload_of(unsigned opcode) {
  const OpcodeInfo& info = opcode_info(static_cast<Opcode>(opcode));
  if (!info.payload) {
    return 0;
  }
  if (info.operation == Operation::kCnp) {
    return 16;
  }
  return info.last ? kTailBytes : kMtu;
}

// The packets by which a peer gets to `previous`, inclusive.
std::vector<unsigned> way_to(unsigned previous) {
  const unsigned transport = previous & 0xE0U;
  switch (kKinds[previous & 0x1FU]) {
    case 'm':
    case 'l':
      return {transport, previous};
    case 'M':
    case 'L':
      return {transport | 0x06U, previous};
    default:
      return {previous};
  }
}

Message message_after(unsigned previous) {
  switch (kKinds[previous & 0x1FU]) {
    case 's':
    case 'm':
      return Message::kSend;
    case 'W':
    case 'M':
      return Message::kWrite;
    default:
      return Message::kNone;
  }
}

// The frame of an undefined opcode: an ordinary one with another opcode byte. Such a frame gets no
// further than parse(), which checks the opcode before the ICRC.
Drop fate_of_undefined(unsigned opcode) {
  Bytes bytes(256);
  Frame frame;
  frame.data = bytes.data();
  frame.capacity = static_cast<std::uint32_t>(bytes.size());
  Headers headers;
  headers.dest_qpn = QpRig::kQpn;
  const FrameTemplate sender(peer_path());
  FrameWriter(frame, sender, headers, 0, 1).finish();
  bytes[sender.length()] = static_cast<std::byte>(opcode);
  return parse(frame);
}

class Bench {
 public:
  Bench(QpType type, QpState state) : rig_(options(type, state)), memory_(64 * 1024) {
    key_ = rig_.add_region(
        memory_, kIova,
        kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic);
    for (std::uint64_t i = 0; i < 4; ++i) {
      rig_.receives.post_receive(i, std::array{abi::Sge{kIova, 32 * 1024, key_}});
    }
  }

  // `then` more bytes of the same WRITE will follow.
  void send(unsigned opcode, std::uint32_t then) {
    Headers headers;
    headers.opcode = static_cast<Opcode>(opcode);
    headers.psn = psn_;
    headers.ack_request = true;
    const std::uint32_t length = payload_of(opcode);
    const bool read = opcode_info(headers.opcode).operation == Operation::kReadRequest;
    headers.reth = {.address = kIova, .rkey = key_, .length = read ? kTailBytes : length + then};
    headers.atomic_eth = {.address = kIova, .rkey = key_, .swap_add = 1, .compare = 0};
    headers.deth = {.qkey = rig_.qp().attributes().qkey, .source_qpn = QpRig::kPeerQpn};
    headers.xrc_srqn = QpRig::kSrqn;
    ASSERT_EQ(rig_.receive(headers, pattern(1, length)), Step::kDone);
    if (rig_.last_drop() == Drop::kNone) {
      psn_ = psn_add(psn_, 1);
    }
  }

  // Whether it answered with a NAK, either invalid request or remote access error.
  bool refused() {
    for (const SentPacket& sent : rig_.transmit()) {
      const OpcodeInfo& info = opcode_info(sent.packet().opcode);
      if (info.has(Extension::kAeth) && (sent.packet().aeth().syndrome >> 5U) == kNakSyndrome) {
        return true;
      }
    }
    return false;
  }

  QpRig& rig() { return rig_; }

 private:
  static constexpr unsigned kNakSyndrome = 3;
  static QpRig::Options options(QpType type, QpState state) {
    QpRig::Options options;
    options.type = type;
    options.receive_entries = 8;
    options.send_entries = 8;
    options.cq_entries = 16;
    options.state = state == QpState::kReset || state == QpState::kInit || state == QpState::kRtr
                        ? state
                        : QpState::kRts;
    return options;
  }

  QpRig rig_;
  Bytes memory_;
  std::uint32_t key_ = 0;
  std::uint32_t psn_ = kFirstPsn;
};

// Payload bytes of a WRITE that follow its FIRST packet.
std::uint32_t bytes_behind(const std::vector<unsigned>& way, unsigned opcode) {
  std::uint32_t bytes = 1;  // a MIDDLE isn't the last packet
  for (std::size_t i = 1; i < way.size(); ++i) {
    bytes += payload_of(way[i]);
  }
  const char kind = kKinds[opcode & 0x1FU];
  if (opcode >> 5U == way.back() >> 5U && (kind == 'L' || kind == 'M') &&
      message_after(way.back()) == Message::kWrite) {
    bytes += payload_of(opcode) - (kind == 'L' ? 1 : 0);
  }
  return kKinds[way.back() & 0x1FU] == 'L' ? bytes - 1 : bytes;
}

void check(QpType type, unsigned opcode, unsigned previous, QpState state) {
  const Expected wanted = expected(type, opcode, message_after(previous), state);
  if (wanted.drop == Drop::kUnknownOpcode) {
    return;  // see UndefinedOpcodesAreDropped: it doesn't depend on state
  }
  Bench bench(type, state);
  QpRig& rig = bench.rig();
  if (state != QpState::kReset && state != QpState::kInit) {
    const std::vector<unsigned> way = way_to(previous);
    for (const unsigned before : way) {
      bench.send(before, kKinds[before & 0x1FU] == 'W' ? bytes_behind(way, opcode) : 0);
      ASSERT_EQ(rig.last_drop(), Drop::kNone);
    }
    ASSERT_FALSE(bench.refused());
    if (rig.qp().state() != state) {
      rig.to_state(state);
    }
  }
  bench.send(opcode, kKinds[opcode & 0x1FU] == 'W' ? 1 : 0);
  EXPECT_EQ(rig.last_drop(), wanted.drop);
  const bool refused = bench.refused();
  if (wanted.fate == Fate::kRefused || (wanted.fate == Fate::kTakenOrRefused && refused)) {
    EXPECT_TRUE(refused);
    EXPECT_EQ(rig.qp().state(), QpState::kErr);
  } else {
    EXPECT_FALSE(refused);
    const unsigned low = opcode & 0x1FU;
    const bool invalidates =
        low == 0x16 || low == 0x17;  // of a key that can't be invalidated: class J
    EXPECT_EQ(rig.qp().state(), wanted.fate == Fate::kTaken && invalidates ? QpState::kErr : state);
  }
}

TEST(Exhaustive, UndefinedOpcodesAreDropped) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    // Our own opcodes in the manufacturers' range are identified by their payload, and the tests
    // below send another manufacturer's payload.
    if (!is_defined(opcode) &&
        !outside_sequence(opcode_info(static_cast<Opcode>(opcode)).operation)) {
      EXPECT_EQ(fate_of_undefined(opcode), Drop::kUnknownOpcode) << opcode;
    }
  }
}

class ExhaustiveInState : public testing::TestWithParam<std::tuple<QpType, QpState>> {};

TEST_P(ExhaustiveInState, EachOpcodeAfterEachOther) {
  constexpr std::string_view kRequestsTaken = "smloWMLOq";
  const auto [type, state] = GetParam();
  for (unsigned low = 0; low < 0x16; ++low) {
    const unsigned previous = transport_of(type) << 5U | low;
    if (!is_defined(previous) || kRequestsTaken.find(kKinds[low]) == std::string_view::npos) {
      continue;  // leaves no state behind, or the queue pair in ERR
    }
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
      SCOPED_TRACE("opcode " + std::to_string(opcode) + " behind " + std::to_string(previous));
      check(type, opcode, previous, state);
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }
}

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr,
                               QpState::kRts,   QpState::kSqd,  QpState::kErr};

INSTANTIATE_TEST_SUITE_P(Reliable, ExhaustiveInState,
                         testing::Combine(testing::Values(QpType::kRc, QpType::kXrcRecv),
                                          testing::ValuesIn(kStates)));
INSTANTIATE_TEST_SUITE_P(Unreliable, ExhaustiveInState,
                         testing::Combine(testing::Values(QpType::kUc, QpType::kUd),
                                          testing::ValuesIn(kStates)));
INSTANTIATE_TEST_SUITE_P(SendQueueError, ExhaustiveInState,
                         testing::Combine(testing::Values(QpType::kUc, QpType::kUd),
                                          testing::Values(QpState::kSqe)));

}  // namespace
}  // namespace uroce::test
