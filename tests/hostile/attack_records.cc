// records: random commands with random bodies and odd descriptors, in one session after the other.

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>

#include "abi/version.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::size_t kBodyMax = 512;
constexpr int kRecordsOfASession = 100;
constexpr std::array kCommandsBegin{1U, 100U, 150U, 170U, 200U, 300U, 1000U};

UniqueFd odd_descriptor(std::mt19937_64& random) {
  int ends[2] = {-1, -1};
  switch (random() % 5) {
    case 0:
      return UniqueFd(::eventfd(0, EFD_CLOEXEC));
    case 1:
      return UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    case 2:
      return UniqueFd(::memfd_create("odd", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    case 3:
      return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    default:
      if (::pipe(ends) == 0) {
        ::close(ends[1]);
      }
      return UniqueFd(ends[0]);
  }
}

Record random_record(std::mt19937_64& random, std::uint32_t sequence) {
  Record record;
  record.bytes.resize(sizeof(abi::RequestHeader) + random() % kBodyMax);
  for (std::byte& byte : record.bytes) {
    byte = random() % 4 == 0 ? static_cast<std::byte>(random()) : std::byte{0};
  }
  for (std::uint64_t i = random() % 4; i != 0; --i) {
    record.descriptors.push_back(odd_descriptor(random));
  }
  abi::RequestHeader header;
  header.version = abi::kVersion;
  header.command =
      static_cast<abi::Command>(kCommandsBegin[random() % kCommandsBegin.size()] + random() % 32);
  header.sequence = sequence;
  header.length = static_cast<std::uint32_t>(record.bytes.size());
  header.descriptor_count = static_cast<std::uint32_t>(record.descriptors.size());
  std::memcpy(record.bytes.data(), &header, sizeof(header));
  return record;
}

}  // namespace

int attack_with_records(Arguments arguments) {
  std::mt19937_64 random(number(arguments, 0, 1));
  say_attacking();
  for (;;) {
    RawSession session;
    bool alive = !session.open().closed;
    for (std::uint32_t i = 0; alive && i < kRecordsOfASession; ++i) {
      alive = session.send(random_record(random, i)) && !session.receive().closed;
    }
  }
}

}  // namespace uroce::hostile
