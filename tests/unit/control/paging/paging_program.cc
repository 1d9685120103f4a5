#include "tests/unit/control/paging/paging_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "abi/version.h"
#include "base/check.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kTakenAtOnce = 4;  // pages, at most; but one change in
constexpr std::uint32_t kAllTaken = 16;    // so many takes all of them

template <typename Body>
Record record_of(const Body& body) {
  Record record;
  record.bytes.resize(sizeof(body));
  std::memcpy(record.bytes.data(), &body, sizeof(body));
  return record;
}

abi::PagingHeader header_of(abi::PagingKind kind, std::uint32_t sequence, std::size_t length,
                            std::uint32_t descriptors = 0) {
  return {.version = abi::kVersion,
          .kind = kind,
          .sequence = sequence,
          .length = static_cast<std::uint32_t>(length),
          .descriptor_count = descriptors};
}

}  // namespace

PagingProgram::PagingProgram(UniqueFd share, UniqueFd invalidate, std::uint32_t seed)
    : share_(std::move(share)),
      invalidate_(std::move(invalidate)),
      arena_(::memfd_create("paging-program", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  UROCE_CHECK(::ftruncate(arena_.get(), static_cast<off_t>(kPlaces * kPages * kPage)) == 0);
  UROCE_CHECK(::fcntl(arena_.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  for (std::uint64_t at = 0; at < kPlaces * kPages; ++at) {
    const std::uint64_t place = at / kPages;
    UROCE_CHECK(::pwrite(arena_.get(), &place, sizeof(place), static_cast<off_t>(at * kPage)) ==
                sizeof(place));
  }
  Record arena = record_of(
      abi::PagingArena{.header = header_of(abi::PagingKind::kArena, 0, sizeof(abi::PagingArena), 1),
                       .page_size = kPage});
  arena.descriptors.emplace_back(::fcntl(arena_.get(), F_DUPFD_CLOEXEC, 0));
  UROCE_CHECK(send_record(share_.get(), arena) == Sending::kSent);
  answering_ = std::thread([this] { answer_questions(); });
  taking_ = std::thread([this, seed] { take_pages_away(seed); });
}

void PagingProgram::hang_up() {
  ::shutdown(share_.get(), SHUT_RDWR);
  ::shutdown(invalidate_.get(), SHUT_RDWR);
}

void PagingProgram::end() {
  if (answering_.joinable()) {
    hang_up();
    answering_.join();
    taking_.join();
    arena_.reset();
  }
}

void PagingProgram::answer_questions() {
  Record record;
  while (receive_record(share_.get(), &record) == ReceiveStatus::kRecord) {
    abi::ShareRange question;
    UROCE_CHECK(record.bytes.size() == sizeof(question));
    std::memcpy(&question, record.bytes.data(), sizeof(question));
    if (!mute_.load(std::memory_order_relaxed) &&
        send_record(share_.get(), describe(question)) != Sending::kSent) {
      return;
    }
  }
}

// The state at this moment: pages that are taken away aren't mapped.
Record PagingProgram::describe(const abi::ShareRange& question) const {
  std::array<abi::SharedPiece, kPages> pieces;
  std::uint32_t count = 0;
  for (std::uint64_t page = 0; page < kPages; ++page) {
    const std::uint64_t address = kBase + page * kPage;
    const std::uint32_t place = this->place(page);
    if (address >= question.address && address - question.address < question.length &&
        place != kTaken) {
      pieces[count++] = {.memory = {.address = address,
                                    .length = kPage,
                                    .offset = (place * kPages + page) * kPage,
                                    .map_start = 0,
                                    .map_end = 0,
                                    .kind = abi::PieceKind::kArena,
                                    .source = 0},
                         .rights = abi::kPagingRead | abi::kPagingWrite,
                         .reserved = 0};
    }
  }
  const std::size_t length = sizeof(abi::SharedRange) + count * sizeof(abi::SharedPiece);
  Record answer;
  answer.bytes.resize(length);
  const abi::PagingHeader header =
      header_of(abi::PagingKind::kSharedRange, question.header.sequence, length);
  const std::uint64_t end = question.address + question.length;
  std::memcpy(answer.bytes.data() + offsetof(abi::SharedRange, header), &header, sizeof(header));
  std::memcpy(answer.bytes.data() + offsetof(abi::SharedRange, end), &end, sizeof(end));
  std::memcpy(answer.bytes.data() + offsetof(abi::SharedRange, piece_count), &count, sizeof(count));
  std::memcpy(answer.bytes.data() + sizeof(abi::SharedRange), pieces.data(),
              count * sizeof(abi::SharedPiece));
  return answer;
}

void PagingProgram::take_pages_away(std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::uint32_t sequence = 1;; ++sequence) {
    const bool all = random() % kAllTaken == 0;
    const std::uint64_t first = all ? 0 : random() % kPages;
    const std::uint64_t end = all ? kPages : std::min(kPages, first + 1 + random() % kTakenAtOnce);
    const auto reason = static_cast<abi::InvalidateReason>(1 + random() % 3);
    if (!announce(
            {.header = header_of(abi::PagingKind::kInvalidate, sequence, sizeof(abi::Invalidate)),
             .address = kBase + first * kPage,
             .length = (end - first) * kPage,
             .reason = reason,
             .reserved = 0})) {
      return;
    }
    ++invalidations_;
    std::array<std::uint32_t, kPages> before;
    for (std::uint64_t page = first; page < end; ++page) {
      before[page - first] = places_[page].exchange(kTaken, std::memory_order_relaxed);
    }
    std::this_thread::yield();
    // Dropped contents keep their place; memory that is mapped anew may get another one.
    const std::uint32_t move = reason == abi::InvalidateReason::kDrop ? 0 : random() % kPlaces;
    for (std::uint64_t page = first; page < end; ++page) {
      places_[page].store((before[page - first] + move) % kPlaces, std::memory_order_relaxed);
    }
    const Record over =
        record_of(header_of(abi::PagingKind::kInvalidateEnd, sequence, sizeof(abi::PagingHeader)));
    if (send_record(invalidate_.get(), over) != Sending::kSent) {
      return;
    }
  }
}

// False once the session has ended: then no change may be assumed to be known to the daemon.
bool PagingProgram::announce(const abi::Invalidate& range) {
  Record answer;
  return send_record(invalidate_.get(), record_of(range)) == Sending::kSent &&
         receive_record(invalidate_.get(), &answer) == ReceiveStatus::kRecord;
}

}  // namespace uroce::control
