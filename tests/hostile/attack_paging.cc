// paging invalidations SESSIONS: in that many sessions a thousand chunks are populated, and then
// the whole address space is invalidated, again and again. paging prefetches SESSIONS: that many
// sessions request prefetches all the time and never answer the daemon's questions about these
// ranges.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <thread>

#include "abi/memory_records.h"
#include "abi/paging_records.h"
#include "abi/version.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::uint64_t kBase = 0x7000'0000'0000;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kChunks = 1'024;  // the limit of pending ranges of a session
constexpr std::uint32_t kOnDemand = 1U << 6U | 1U;
constexpr std::uint32_t kRefusalsMax = 100;  // consecutive ones; then the attack is impossible

// All memory is one region.
struct RegisterAll {
  abi::RequestHeader header{};
  std::uint64_t address = 0, length = abi::kImplicitLength, iova = 0;
  std::uint32_t pd = 0;
  std::uint32_t access = kOnDemand;
  std::uint32_t piece_count = 0, pieces_in_file = 0, replaces = 0, reserved = 0;
};
static_assert(sizeof(RegisterAll) == sizeof(abi::RegMrRequest));

// A page each of so many chunks.
struct Advise {
  abi::RequestHeader header{};
  std::uint32_t pd = 0;
  abi::Advice advice = abi::Advice::kPrefetch;
  std::uint32_t flags = 0;
  std::uint32_t sge_count = abi::kAdviseSgesMax;
  std::array<abi::AdviseSge, abi::kAdviseSgesMax> sges{};
};
static_assert(sizeof(Advise) == sizeof(abi::AdviseMrRequest) + sizeof(Advise::sges));

bool succeeded(const Answer& answer) { return !answer.closed && answer.header.error == 0; }

template <typename Body>
Record paging_record(const Body& body, std::vector<UniqueFd> descriptors = {}) {
  Record record;
  record.bytes.resize(sizeof(body));
  std::memcpy(record.bytes.data(), &body, sizeof(body));
  record.descriptors = std::move(descriptors);
  return record;
}

void send_by(const UniqueFd& channel, const Record& record) {
  if (send_record(channel.get(), record) != Sending::kSent) {
    give_up("a paging channel is closed");
  }
}

// A session with the protection domain 0 and all its memory registered on demand.
struct PagingSession {
  PagingSession() {
    (void)session.open();
    (void)session.ask(abi::Command::kAllocPd, Bare{});
    Answer opened = session.ask(abi::Command::kOpenPaging, Bare{});
    if (!succeeded(opened) || opened.record.descriptors.size() != 2) {
      give_up("no paging is to be had");
    }
    share = std::move(opened.record.descriptors[0]);
    invalidate = std::move(opened.record.descriptors[1]);
    const Answer registered = session.ask(abi::Command::kRegMr, RegisterAll{});
    if (!succeeded(registered)) {
      give_up("no region is to be had");
    }
    key = registered.as<abi::RegMrReply>().lkey;
  }
  // Starting with the chunk of that number.
  Answer prefetch(std::uint64_t chunk, std::uint32_t flags) {
    Advise advise;
    advise.flags = flags;
    for (abi::AdviseSge& sge : advise.sges) {
      sge = {.address = kBase + chunk++ * abi::kPagingChunk,
             .length = static_cast<std::uint32_t>(kPage),
             .lkey = key};
    }
    return session.ask(abi::Command::kAdviseMr, advise);
  }

  RawSession session;
  UniqueFd share, invalidate;
  std::uint32_t key = 0;
};

// Chunks lie in the arena as they do in memory.
void pass_arena(const UniqueFd& share) {
  UniqueFd arena(::memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!arena.valid() ||
      ::ftruncate(arena.get(), static_cast<off_t>(kChunks * abi::kPagingChunk)) != 0 ||
      ::fcntl(arena.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    give_up("no arena can be made");
  }
  std::vector<UniqueFd> descriptors;
  descriptors.push_back(std::move(arena));
  send_by(share, paging_record(abi::PagingArena{.header = {.version = abi::kVersion,
                                                           .kind = abi::PagingKind::kArena,
                                                           .length = sizeof(abi::PagingArena),
                                                           .descriptor_count = 1},
                                                .page_size = kPage},
                               std::move(descriptors)));
}

[[noreturn]] void answer_questions(const UniqueFd& share) {
  struct Said {
    abi::PagingHeader header;
    std::uint64_t end = 0;
    std::uint32_t error = 0, piece_count = 1;
    abi::SharedPiece piece{};
  };
  static_assert(sizeof(Said) == sizeof(abi::SharedRange) + sizeof(abi::SharedPiece));
  for (;;) {
    Record record;
    abi::ShareRange question{};
    if (receive_record(share.get(), &record) != ReceiveStatus::kRecord ||
        record.bytes.size() != sizeof(question)) {
      give_up("nobody asks any more");
    }
    std::memcpy(&question, record.bytes.data(), sizeof(question));
    Said said{.header = {.version = abi::kVersion,
                         .kind = abi::PagingKind::kSharedRange,
                         .sequence = question.header.sequence,
                         .length = sizeof(Said)},
              .end = question.address + question.length};
    said.piece.memory = {.address = question.address,
                         .length = question.length,
                         .offset = question.address - kBase,
                         .map_start = 0,
                         .map_end = 0,
                         .kind = abi::PieceKind::kArena,
                         .source = 0};
    said.piece.rights = abi::kPagingRead | abi::kPagingWrite;
    send_by(share, paging_record(said));
  }
}

void take_everything_away(const UniqueFd& channel, std::uint32_t sequence) {
  abi::Invalidate all{.header = {.version = abi::kVersion,
                                 .kind = abi::PagingKind::kInvalidate,
                                 .sequence = sequence,
                                 .length = sizeof(abi::Invalidate)},
                      .address = 0,
                      .length = abi::kPagingAddressEnd,
                      .reason = abi::InvalidateReason::kUnmap,
                      .reserved = 0};
  send_by(channel, paging_record(all));
  Record answer;
  if (receive_record(channel.get(), &answer) != ReceiveStatus::kRecord) {
    give_up("nobody takes anything away any more");
  }
  all.header.kind = abi::PagingKind::kInvalidateEnd;
  all.header.length = sizeof(all.header);
  send_by(channel, paging_record(all.header));
}

[[noreturn]] void invalidate() {
  PagingSession session;
  pass_arena(session.share);
  std::thread([&session] { answer_questions(session.share); }).detach();
  say_attacking();
  for (std::uint32_t sequence = 1;; ++sequence) {
    for (std::uint64_t chunk = 0; chunk < kChunks; chunk += abi::kAdviseSgesMax) {
      if (!succeeded(session.prefetch(chunk, abi::kAdviseFlush))) {
        give_up("nothing is populated");
      }
    }
    take_everything_away(session.invalidate, sequence);
  }
}

// What is refused because too many requests are pending is requested again.
[[noreturn]] void prefetch() {
  PagingSession session;
  std::uint32_t refused = 0;
  say_attacking();
  for (std::uint64_t chunk = 0; refused < kRefusalsMax; chunk += abi::kAdviseSgesMax) {
    const Answer answer = session.prefetch(chunk % (kChunks * kChunks), 0);
    const bool waits = answer.header.error == ENOMEM || answer.header.error == EAGAIN;
    refused = succeeded(answer) || (waits && !answer.closed) ? 0 : refused + 1;
  }
  give_up("prefetches are refused");
}

}  // namespace

int attack_by_paging(Arguments arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments.front();
  for (std::uint64_t i = 1; i < number(arguments, 1, 1) && ::fork() != 0; ++i) {
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (what == "invalidations") {
    invalidate();
  } else if (what == "prefetches") {
    prefetch();
  }
  give_up("paging invalidations|prefetches SESSIONS");
}

}  // namespace uroce::hostile
