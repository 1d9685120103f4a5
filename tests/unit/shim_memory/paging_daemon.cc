#include "tests/unit/shim_memory/paging_daemon.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "abi/version.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::test {
namespace {

using abi::PagingHeader;
using abi::PagingKind;

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kRecordMax = 64 << 10;
constexpr std::size_t kPagesMax = 2048;
constexpr std::size_t kAnnouncedMax = 4096;

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

PagingHeader header_of(PagingKind kind, std::uint32_t sequence, std::size_t length) {
  return {.magic = abi::kPagingMagic,
          .version = abi::kVersion,
          .kind = kind,
          .sequence = sequence,
          .length = static_cast<std::uint32_t>(length),
          .descriptor_count = 0};
}

}  // namespace

PagingDaemon::PagingDaemon() {
  int share[2];
  int invalidate[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, share), 0);
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, invalidate), 0);
  share_.reset(share[0]);
  share_number_ = share[1];
  invalidate_number_ = invalidate[1];
  record_.resize(kRecordMax);
  pages_.resize(kPagesMax, {.address = 0, .host = nullptr});
  announced_.reserve(kAnnouncedMax);
  invalidate_.reset(invalidate[0]);
  thread_ = std::thread([this] { answer_invalidations(); });
  auto session = shim::PagingSession::open(UniqueFd(share[1]), UniqueFd(invalidate[1]));
  EXPECT_TRUE(session) << (session ? "" : session.error().message.view());
  session_ = std::move(*session);
}

PagingDaemon::~PagingDaemon() {
  session_.reset();
  ::shutdown(invalidate_.get(), SHUT_RDWR);
  thread_.join();
  drop(0, ~0ULL);
}

void PagingDaemon::answer_invalidations() {
  abi::Invalidate question;
  while (::recv(invalidate_.get(), &question, sizeof(question), 0) > 0) {
    if (question.header.kind == PagingKind::kInvalidateEnd) {
      --under_way_;
      continue;
    }
    const PagingHeader answer =
        header_of(PagingKind::kInvalidated, question.header.sequence, sizeof(answer));
    {
      const std::lock_guard lock(mutex_);
      drop(question.address, question.address + question.length);
      ++generation_;
      EXPECT_LT(announced_.size(), announced_.capacity());
      announced_.push_back({question.address, question.length, question.reason});
    }
    ++under_way_;
    ::send(invalidate_.get(), &answer, sizeof(answer), MSG_NOSIGNAL);
  }
}

void PagingDaemon::drop(std::uint64_t start, std::uint64_t end) {
  for (Page& page : pages_) {
    if (page.host != nullptr && page.address < end && page.address + kPage > start) {
      shim::kernel::munmap(page.host, kPage);  // not part of the program's memory
      page.host = nullptr;
    }
  }
}

std::size_t PagingDaemon::receive(std::vector<UniqueFd>* descriptors) {
  iovec bytes{record_.data(), record_.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * abi::kPagingDescriptorsMax)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof(ancillary);
  const ssize_t got = ::recvmsg(share_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < static_cast<ssize_t>(sizeof(PagingHeader))) {
    return 0;
  }
  if (const cmsghdr* head = CMSG_FIRSTHDR(&message)) {
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::vector<int> numbers(count);
    std::memcpy(numbers.data(), CMSG_DATA(head), count * sizeof(int));
    for (const int number : numbers) {
      descriptors->emplace_back(number);
    }
  }
  return static_cast<std::size_t>(got);
}

PagingDaemon::Shared PagingDaemon::ask(const void* address, std::uint64_t length,
                                       std::uint32_t rights) {
  const std::uint64_t start = number_of(address) / abi::kPagingChunk * abi::kPagingChunk;
  const std::uint64_t end =
      (number_of(address) + length + abi::kPagingChunk - 1) / abi::kPagingChunk * abi::kPagingChunk;
  const abi::ShareRange question{
      .header = header_of(PagingKind::kShareRange, ++sequence_, sizeof(question)),
      .address = start,
      .length = end - start,
      .rights = rights,
      .reserved = 0};
  // Fails if the program has closed its end.
  const bool sent = ::send(share_.get(), &question, sizeof(question), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(sizeof(question));
  Shared shared;
  while (const std::size_t got = sent ? receive(&shared.descriptors) : 0) {
    const auto* const header = reinterpret_cast<const PagingHeader*>(record_.data());
    if (header->kind == PagingKind::kArena) {
      arenas_.push_back(std::move(shared.descriptors.at(0)));
      shared.descriptors.clear();
      continue;
    }
    EXPECT_EQ(header->sequence, sequence_);
    EXPECT_EQ(header->length, got);
    const auto* const range = reinterpret_cast<const abi::SharedRange*>(record_.data());
    shared.end = range->end;
    shared.pieces.assign(range->pieces, range->pieces + range->piece_count);
    return shared;
  }
  ADD_FAILURE() << "no answer";
  return shared;
}

std::byte* PagingDaemon::keep(std::uint64_t page, int file, std::uint64_t offset, bool writable) {
  void* const host = shim::kernel::mmap(nullptr, kPage, PROT_READ | (writable ? PROT_WRITE : 0),
                                        MAP_SHARED, file, offset);
  const auto room = std::find_if(pages_.begin(), pages_.end(),
                                 [](const Page& one) { return one.host == nullptr; });
  if (host == MAP_FAILED || room == pages_.end()) {
    return nullptr;
  }
  *room = {.address = page, .host = static_cast<std::byte*>(host)};
  return room->host;
}

std::byte* PagingDaemon::reach_locked(std::uint64_t address) {
  const std::uint64_t page = address / kPage * kPage;
  for (const Page& known : pages_) {
    if (known.host != nullptr && known.address == page) {
      return known.host + address % kPage;
    }
  }
  for (;;) {
    const std::uint64_t before = generation_;
    mutex_.unlock();
    const Shared shared = ask(reinterpret_cast<const void*>(page), kPage);
    mutex_.lock();
    if (generation_ != before || under_way_.load() != 0) {
      mutex_.unlock();
      std::this_thread::yield();
      mutex_.lock();
      continue;  // the answer may predate a change
    }
    for (const abi::SharedPiece& piece : shared.pieces) {
      const abi::MemoryPiece& memory = piece.memory;
      const bool inside = page >= memory.address && page < memory.address + memory.length;
      if (!inside ||
          (memory.kind != abi::PieceKind::kArena && memory.kind != abi::PieceKind::kDescriptor)) {
        continue;
      }
      const int file = memory.kind == abi::PieceKind::kArena
                           ? arenas_.at(memory.source).get()
                           : shared.descriptors.at(memory.source).get();
      const bool writable = (piece.rights & abi::kPagingWrite) != 0;
      std::byte* const host = keep(page, file, memory.offset + (page - memory.address), writable);
      return host == nullptr ? nullptr : host + address % kPage;
    }
    return nullptr;
  }
}

void PagingDaemon::expect_all_ended() const {
  while (under_way_.load() != 0) {
    std::this_thread::yield();
  }
}

std::byte* PagingDaemon::reach(const void* address) {
  const std::lock_guard lock(mutex_);
  return reach_locked(number_of(address));
}

std::optional<std::uint64_t> PagingDaemon::load(const void* address) {
  const std::lock_guard lock(mutex_);
  const std::byte* const host = reach_locked(number_of(address));
  if (host == nullptr) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  std::memcpy(&value, host, sizeof(value));
  return value;
}

bool PagingDaemon::store(const void* address, std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  std::byte* const host = reach_locked(number_of(address));
  if (host == nullptr) {
    return false;
  }
  std::memcpy(host, &value, sizeof(value));
  return true;
}

std::vector<PagingDaemon::Announced> PagingDaemon::announced() {
  const std::lock_guard lock(mutex_);
  std::vector<Announced> seen(announced_);
  announced_.clear();
  return seen;
}

}  // namespace uroce::test
