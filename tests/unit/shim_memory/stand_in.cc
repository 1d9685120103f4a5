#include "tests/unit/shim_memory/stand_in.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "base/sockets/descriptor_message.h"
#include "mmu/copies/copy.h"
#include "mmu/pinned/program_memory.h"
#include "shares/shares.h"

namespace uroce::test {
namespace {

enum class What : std::uint32_t { kProgram, kArena, kShare, kRead, kWrite, kAdd };

struct Order {
  What what{};
  std::uint32_t access = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t value = 0;
};

struct Reply {
  std::uint32_t error = 0;
  std::uint32_t handle = 0;
  std::uint32_t pieces = 0;
  std::uint32_t remote_pieces = 0;
};

constexpr std::size_t kRoom = 128 << 10;  // of a record

bool receive_record(int socket, std::vector<std::byte>* bytes, std::vector<UniqueFd>* descriptors) {
  bytes->resize(kRoom);
  Descriptors received;
  const ssize_t got = receive_message(socket, *bytes, 0, &received).length;
  if (got <= 0) {
    return false;
  }
  bytes->resize(static_cast<std::size_t>(got));
  for (std::uint32_t i = 0; i < received.count(); ++i) {
    descriptors->push_back(received.take(i));
  }
  return true;
}

// The stand-in's own side: handles one command at a time.
class Server {
 public:
  explicit Server(int socket) : socket_(socket) {}

  [[noreturn]] void run() {
    std::vector<std::byte> record;
    for (std::vector<UniqueFd> passed; receive_record(socket_, &record, &passed); passed.clear()) {
      Order order;
      std::memcpy(&order, record.data(), sizeof(order));
      payload_.assign(record.begin() + sizeof(order), record.end());
      answer_.clear();
      const Reply reply = serve(order, passed);
      std::vector<std::byte> whole(sizeof(reply));
      std::memcpy(whole.data(), &reply, sizeof(reply));
      whole.insert(whole.end(), answer_.begin(), answer_.end());
      (void)send_message(socket_, whole);
    }
    ::_exit(0);
  }

 private:
  Reply serve(const Order& order, std::vector<UniqueFd>& passed) {
    switch (order.what) {
      case What::kProgram:
        pid_ = static_cast<int>(order.length);
        uid_ = static_cast<std::uint32_t>(order.value);
        gid_ = order.access;
        memory_ = std::make_unique<ProgramMemory>(make_private_account());
        return {};
      case What::kArena:
        return add_arena(order, passed);
      case What::kShare:
        return share(order, passed);
      default:
        return access(order);
    }
  }

  Reply add_arena(const Order& order, std::vector<UniqueFd>& passed) {
    auto handle = memory_->add_arena(std::move(passed.at(0)), order.length);
    return handle ? Reply{.handle = *handle}
                  : Reply{.error = static_cast<std::uint32_t>(handle.error().code)};
  }

  Reply share(const Order& order, const std::vector<UniqueFd>& passed) {
    std::vector<abi::MemoryPiece> pieces(payload_.size() / sizeof(abi::MemoryPiece));
    std::memcpy(pieces.data(), payload_.data(), payload_.size());
    std::vector<int> descriptors;
    for (const UniqueFd& one : passed) {
      descriptors.push_back(one.get());
    }
    auto region = memory_->make_region(
        {.pd = 1,
         .access = order.access,
         .address = order.address,
         .length = order.length,
         .iova = order.address},
        pieces, descriptors, ProgramMemory::open(ProgramProcess(pid_, uid_, gid_), pieces, true));
    if (!region) {
      return {.error = static_cast<std::uint32_t>(region.error().code)};
    }
    region_ = std::move(*region);
    return {.pieces = static_cast<std::uint32_t>(pieces.size()),
            .remote_pieces = region_->remote_pieces()};
  }

  Reply access(const Order& order) {
    std::byte* const bytes = order.what == What::kRead
                                 ? (answer_.resize(order.length), answer_.data())
                                 : payload_.data();
    bool done = true;
    for (std::uint64_t at = 0; done && at < order.length;) {
      Span span;
      done = region_->translate(order.address + at, order.length - at, true, &span) ==
             Access::kGranted;
      std::uint64_t original = 0;
      if (order.what == What::kRead) {
        done = done && copy_from(*region_, span, bytes + at);
      } else if (order.what == What::kWrite) {
        done = done && copy_to(*region_, span, bytes + at);
      } else {
        for (std::uint32_t i = 0; done && i < order.access; ++i) {
          done = fetch_and_add(*region_, span, order.value, &original);
        }
      }
      at += span.length;
    }
    return {.error = done ? 0U : EFAULT};
  }

  int socket_;
  int pid_ = 0;
  std::uint32_t uid_ = 0;
  std::uint32_t gid_ = 0;
  std::unique_ptr<ProgramMemory> memory_;
  std::unique_ptr<Region> region_;
  std::vector<std::byte> payload_, answer_;
};

std::vector<std::byte> record_of(const Order& order, const void* payload = nullptr,
                                 std::size_t length = 0) {
  std::vector<std::byte> record(sizeof(order) + length);
  std::memcpy(record.data(), &order, sizeof(order));
  if (length != 0) {
    std::memcpy(record.data() + sizeof(order), payload, length);
  }
  return record;
}

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

struct StandIn::Answer {
  Reply reply;
  std::vector<std::byte> payload;
};

StandIn::StandIn() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    Server(ends[1]).run();
  }
  ::close(ends[1]);
  socket_.reset(ends[0]);
  set_program(::getpid(), ::getuid(), ::getgid());
}

StandIn::~StandIn() {
  socket_.reset();
  ::waitpid(pid_, nullptr, 0);
}

void StandIn::set_program(int pid, std::uint32_t uid, std::uint32_t gid) {
  ask(record_of({.what = What::kProgram,
                 .access = gid,
                 .length = static_cast<std::uint64_t>(pid),
                 .value = uid}));
  arenas_.clear();
}

StandIn::Answer StandIn::ask(std::vector<std::byte> order, const std::vector<int>& descriptors) {
  (void)send_message(socket_.get(), order, descriptors);
  std::vector<std::byte> record;
  std::vector<UniqueFd> none;
  Answer answer;
  answer.reply.error = EPIPE;
  if (receive_record(socket_.get(), &record, &none)) {
    std::memcpy(&answer.reply, record.data(), sizeof(answer.reply));
    answer.payload.assign(record.begin() + sizeof(answer.reply), record.end());
  }
  return answer;
}

Registered StandIn::share(const void* address, std::uint64_t length, std::uint32_t access) {
  auto description = shim::describe_memory(number_of(address), length, access);
  if (!description) {
    return {.error = static_cast<std::uint32_t>(description.error().code)};
  }
  std::vector<int> descriptors;
  for (const UniqueFd& one : description->descriptors) {
    descriptors.push_back(one.get());
  }
  for (abi::MemoryPiece& piece : description->pieces) {
    if (piece.kind == abi::PieceKind::kArena) {
      while (arenas_.size() <= piece.source) {
        const shim::Arena next = shim::arena(static_cast<std::uint32_t>(arenas_.size()));
        const Answer added =
            ask(record_of({.what = What::kArena, .length = next.page_size}), {next.descriptor});
        EXPECT_EQ(added.reply.error, 0U);
        arenas_.push_back(added.reply.handle);
      }
      piece.source = arenas_[piece.source];
    }
  }
  const Answer answer = ask(
      record_of(
          {.what = What::kShare, .access = access, .address = number_of(address), .length = length},
          description->pieces.data(), description->pieces.size() * sizeof(abi::MemoryPiece)),
      descriptors);
  shim::release_memory(description->held);
  return {.error = answer.reply.error,
          .remote_pieces = answer.reply.remote_pieces,
          .pieces = answer.reply.pieces};
}

std::vector<std::byte> StandIn::read(const void* address, std::uint32_t length) {
  Answer answer =
      ask(record_of({.what = What::kRead, .address = number_of(address), .length = length}));
  return answer.reply.error == 0 ? std::move(answer.payload) : std::vector<std::byte>();
}

bool StandIn::write(const void* address, std::span<const std::byte> bytes) {
  return ask(record_of(
                 {.what = What::kWrite, .address = number_of(address), .length = bytes.size()},
                 bytes.data(), bytes.size()))
             .reply.error == 0;
}

bool StandIn::add(const void* address, std::uint64_t value, std::uint32_t times) {
  return ask(record_of({.what = What::kAdd,
                        .access = times,
                        .address = number_of(address),
                        .length = sizeof(value),
                        .value = value}))
             .reply.error == 0;
}

std::uint64_t StandIn::load(const void* address) {
  std::uint64_t value = ~0ULL;
  const auto bytes = read(address, sizeof(value));
  if (bytes.size() == sizeof(value)) {
    std::memcpy(&value, bytes.data(), sizeof(value));
  }
  return value;
}

bool StandIn::store(const void* address, std::uint64_t value) {
  return write(address, std::as_bytes(std::span(&value, 1)));
}

}  // namespace uroce::test
