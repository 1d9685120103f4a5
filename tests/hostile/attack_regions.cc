// pieces USER COUNT: registers a region of that many pieces of 16 MiB, ends, and begins again.
// closings USER PROCESSES REGIONS: processes with that many regions of 16 MiB each end at the same
// time. It is the same memory over and over, which costs the attacker next to nothing. Root starts
// it; the user may lock as much memory as he likes, as on most machines with cards.

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "abi/memory_records.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::uint64_t kNobody = 65'534;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPieceBytes = 16ULL << 20U;
constexpr std::uint64_t kFileBytes = 1ULL << 40U;
constexpr std::uint64_t kAddress = 1ULL << 32U;
constexpr std::uint64_t kCountMax = 65'536;  // the limit of pieces of a region

// A region whose pieces come in a file.
struct RegisterFromFile {
  abi::RequestHeader header{};
  std::uint64_t address = kAddress, length = 0, iova = kAddress;
  std::uint32_t pd = 0;
  std::uint32_t access = 1;  // local write
  std::uint32_t piece_count = 0, pieces_in_file = 1, replaces = 0, reserved = 0;
};
static_assert(sizeof(RegisterFromFile) == sizeof(abi::RegMrRequest));

// The only privilege kept is CAP_IPC_LOCK.
void become(std::uint64_t user) {
  const auto id = static_cast<uid_t>(user);
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  constexpr std::uint32_t kLock = 1U << CAP_IPC_LOCK;
  const __user_cap_data_struct kept[2] = {
      {.effective = kLock, .permitted = kLock, .inheritable = 0}, {}};
  if (::prctl(PR_SET_KEEPCAPS, 1L) != 0 || ::setresgid(id, id, id) != 0 ||
      ::setresuid(id, id, id) != 0 || ::syscall(SYS_capset, &header, kept) != 0) {
    give_up("this isn't root's");
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // another user has none
}

UniqueFd memory_file(const char* name) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) {
    give_up("no memfd");
  }
  return file;
}

// A session with the arena 0 and the protection domain 0.
void begin(RawSession& session, const UniqueFd& arena) {
  (void)session.open();
  (void)session.ask(abi::Command::kAllocPd, Bare{});
  abi::ShareArenaRequest share{};
  share.page_size = kPage;
  std::vector<UniqueFd> descriptors;
  descriptors.emplace_back(::fcntl(arena.get(), F_DUPFD_CLOEXEC, 0));
  const Answer answer = session.ask(abi::Command::kShareArena, share, std::move(descriptors));
  if (answer.closed || answer.header.error != 0) {
    give_up("the arena isn't taken");
  }
}

UniqueFd arena_file() {
  UniqueFd arena = memory_file("arena");
  if (::ftruncate(arena.get(), kFileBytes) != 0 ||
      ::fcntl(arena.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    give_up("no arena can be made");
  }
  return arena;
}

// `count` pieces, each a page after the previous one in the file: so no two can be merged into one
// mapping.
void register_pieces(RawSession& session, std::uint64_t count) {
  const UniqueFd list = memory_file("pieces");
  for (std::uint64_t i = 0; i < count; ++i) {
    const abi::MemoryPiece piece{.address = kAddress + i * kPieceBytes,
                                 .length = kPieceBytes,
                                 .offset = i * kPage,
                                 .map_start = 0,
                                 .map_end = 0,
                                 .kind = abi::PieceKind::kArena,
                                 .source = 0};
    if (::write(list.get(), &piece, sizeof(piece)) != sizeof(piece)) {
      give_up("the list of pieces can't be written");
    }
  }
  if (::fcntl(list.get(), F_ADD_SEALS, abi::kPieceListSeals) != 0) {
    give_up("the list of pieces can't be sealed");
  }
  RegisterFromFile request;
  request.length = count * kPieceBytes;
  request.piece_count = static_cast<std::uint32_t>(count);
  std::vector<UniqueFd> descriptors;
  descriptors.emplace_back(::fcntl(list.get(), F_DUPFD_CLOEXEC, 0));
  const Answer answer = session.ask(abi::Command::kRegMr, request, std::move(descriptors));
  if (answer.closed || answer.header.error != 0) {
    give_up("a region is refused with " + std::to_string(answer.header.error));
  }
}

// A region that is one piece of a file that comes with it, to be read: such pages are populated
// quickly.
void register_file(RawSession& session, const UniqueFd& file) {
  std::vector<UniqueFd> descriptors;
  descriptors.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  const Answer answer = session.ask(abi::Command::kRegMr,
                                    one_piece(abi::PieceKind::kDescriptor, kAddress, kPieceBytes),
                                    std::move(descriptors));
  if (answer.closed || answer.header.error != 0) {
    give_up("a region is refused with " + std::to_string(answer.header.error));
  }
}

}  // namespace

int attack_with_pieces(Arguments arguments) {
  become(number(arguments, 0, kNobody));
  const std::uint64_t count = std::min(number(arguments, 1, 2'000), kCountMax);
  const UniqueFd arena = arena_file();
  say_attacking();
  for (;;) {
    RawSession session;
    begin(session, arena);
    register_pieces(session, count);
  }
}

int attack_by_closing(Arguments arguments) {
  become(number(arguments, 0, kNobody));
  const std::uint64_t processes = number(arguments, 1, 3);
  const std::uint64_t regions = std::min(number(arguments, 2, 2'000), kCountMax);
  const UniqueFd file = memory_file("memory");
  if (::fallocate(file.get(), 0, 0, kPieceBytes) != 0) {
    give_up("there is no memory");
  }
  int ready[2] = {-1, -1};
  if (::pipe2(ready, O_CLOEXEC) != 0) {
    give_up("no pipe");
  }
  std::vector<pid_t> children;
  for (std::uint64_t i = 0; i < processes; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      RawSession session;
      (void)session.open();
      (void)session.ask(abi::Command::kAllocPd, Bare{});
      for (std::uint64_t at = 0; at < regions; ++at) {
        register_file(session, file);
      }
      (void)!::write(ready[1], "r", 1);
      for (;;) {
        ::pause();
      }
    }
  }
  ::close(ready[1]);
  for (std::uint64_t i = 0; i < processes; ++i) {
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) {
      give_up("the regions can't be had");
    }
  }
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
  }
  say_attacking();
  for (;;) {
    ::pause();
  }
}

}  // namespace uroce::hostile
