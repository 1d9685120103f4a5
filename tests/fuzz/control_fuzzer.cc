// Control records as a hostile program may send them: the daemon answers or refuses each, and when
// the program ends nothing of it is left.
//
// The input is a list of records: command, flags, length of the body (2 bytes), body. The header is
// valid unless the flags ask for a wrong one, and a body that is too short is padded with zeros
// (records grow at their end), so that mutations and old inputs reach the handlers.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>

#include "abi/version.h"
#include "base/time/monotonic_clock.h"
#include "control/commands/command_table.h"
#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

constexpr std::size_t kRecordsMax = 64;
constexpr std::size_t kPrefix = 4;
constexpr std::uint8_t kRawHeader = 0x80;  // the body starts with the header's bytes
constexpr std::uint8_t kSealedBit = 0x40;  // the rest of the body comes in a sealed memfd
constexpr std::uint8_t kKindsMask = 0x3C;  // of its descriptors: 2 bits each of the first two
constexpr unsigned kKindsShift = 2;
constexpr std::uint8_t kDescriptorsMask = 0x03;  // how many come with it

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "control_fuzzer: %s\n", what);
    std::abort();
  }
}

// A byte is the command of its number or, from kFrom300 on, one of those from 300 on. Other values
// select from the table, so that all are reached.
abi::Command command_of(std::uint8_t byte) {
  constexpr std::uint8_t kFrom300 = 210;
  for (const int number : {int{byte}, 300 + byte - kFrom300}) {
    if (command_rule(static_cast<abi::Command>(number)) != nullptr) {
      return static_cast<abi::Command>(number);
    }
  }
  const auto rules = command_rules();
  return byte == 0 ? abi::Command{} : rules[byte % rules.size()].command;
}

// Of a kind that programs pass, or that a helper lets through though no command takes it.
UniqueFd make_descriptor(unsigned kind) {
  switch (kind) {
    case 1:
      return {};  // one that a helper has closed (control/foreign/inbox.h)
    case 2:
      return UniqueFd(::open("/", O_PATH | O_CLOEXEC));
    case 3:
      return UniqueFd(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
    default:
      break;
  }
  // A memfd like those that shims pass.
  UniqueFd memfd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(::ftruncate(memfd.get(), 65'536) == 0, "ftruncate");
  return memfd;
}

// A list of pieces, as shims pass it.
UniqueFd make_sealed(std::span<const std::uint8_t> content) {
  UniqueFd memfd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(
      ::write(memfd.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()),
      "write");
  require(::fcntl(memfd.get(), F_ADD_SEALS, abi::kPieceListSeals) == 0, "F_ADD_SEALS");
  return memfd;
}

// Takes the next record from the input.
Record next_record(std::span<const std::uint8_t>* input) {
  const std::uint8_t command = (*input)[0];
  const std::uint8_t flags = (*input)[1];
  const std::size_t wanted = (*input)[2] | static_cast<std::size_t>((*input)[3]) << 8U;
  *input = input->subspan(kPrefix);
  auto body = input->first(std::min(wanted, input->size()));
  *input = input->subspan(body.size());
  Record record;
  std::size_t length = 0;  // with its header
  for (unsigned i = 0; i < (flags & kDescriptorsMask); ++i) {
    const unsigned kind = i < 2 ? ((flags & kKindsMask) >> (kKindsShift + 2U * i)) & 3U : 0;
    record.descriptors.push_back(make_descriptor(kind));
  }
  if ((flags & kRawHeader) == 0) {
    abi::RequestHeader header;
    header.version = abi::kVersion;
    header.command = command_of(command);
    header.sequence = 1;
    const CommandRule* rule = command_rule(header.command);
    if ((flags & kSealedBit) != 0 && rule != nullptr) {
      const std::size_t kept = std::min(body.size(), rule->length - sizeof(header));
      record.descriptors.push_back(make_sealed(body.subspan(kept)));
      body = body.first(kept);
    }
    length = std::max(sizeof(header) + body.size(), rule != nullptr ? rule->length : 0);
    header.length = static_cast<std::uint32_t>(length);
    header.descriptor_count = static_cast<std::uint32_t>(record.descriptors.size());
    const auto bytes = std::as_bytes(std::span(&header, 1));
    record.bytes.assign(bytes.begin(), bytes.end());
  }
  const auto bytes = std::as_bytes(body);
  record.bytes.insert(record.bytes.end(), bytes.begin(), bytes.end());
  record.bytes.resize(std::max(length, record.bytes.size()));
  return record;
}

// Every reply is complete, and announces as many descriptors as it has.
void check_replies(Conversation& conversation) {
  for (const Record& record : conversation.outbox()) {
    abi::ReplyHeader header;
    require(record.bytes.size() >= sizeof(header), "a reply is shorter than its header");
    std::memcpy(&header, record.bytes.data(), sizeof(header));
    require(header.length == record.bytes.size(), "a reply's length is wrong");
    require(record.bytes.size() <= kRecordMax, "a reply is too long");
    require(header.descriptor_count == record.descriptors.size(), "a reply's count is wrong");
    require(header.error >= 0, "an error isn't an errno value");
    require((header.error == 0) == (header.message[0] == '\0'), "an error has no sentence");
  }
  conversation.outbox().clear();
}

// The thread that copies from a program's memory may end later than its session: as soon as it gets
// a processor, which takes long on a busy machine. Lines of the error log stay.
bool is_given_back(const Shares& shares, Limit limit) {
  constexpr Duration kTimeout = 20 * kNanosecondsPerSecond;  // libFuzzer's own is 30 s
  const Time begun = monotonic_now();
  while (limit != Limit::kErrorLines && shares.used(limit) != 0) {
    if (monotonic_now() - begun > kTimeout) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

void run(const Services& services, std::span<const std::uint8_t> input) {
  Conversation conversation(services, 1, Peer{::getpid(), ::getuid(), ::getgid()});
  for (std::size_t i = 0; i < kRecordsMax && input.size() >= kPrefix && !conversation.finished();
       ++i) {
    conversation.receive(next_record(&input));
    // A loopback port resolves every address; a helper opens this process's memory.
    while (conversation.waiting()) {
      std::this_thread::yield();
      conversation.resume();
    }
    while (conversation.answering()) {
      conversation.answer_more();
    }
    check_replies(conversation);
  }
}

}  // namespace
}  // namespace uroce::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::control;
  static Rig rig;
  run(rig.services, {data, size});
  require(rig.card.sessions().empty(), "a session is left");
  require(rig.card.qpns().count() + rig.card.cqns().count() + rig.card.srqns().count() == 0,
          "a number is still taken");
  for (std::size_t limit = 0; limit < uroce::kLimitCount; ++limit) {
    const auto name = uroce::facts_of(static_cast<uroce::Limit>(limit)).name;
    require(is_given_back(rig.card.shares(), static_cast<uroce::Limit>(limit)),
            ("not given back: " + std::string(name)).c_str());
  }
  return 0;
}
