// What a hostile program may send on its two paging channels (abi/paging_records.h): answers that
// describe its memory, arenas, and invalidations. They are parsed as by the fault and the
// invalidation thread, and passed to a pager and a mirror. Nothing may be mapped but what a
// descriptor allows, everything can be invalidated again, and a program that ends leaves no charge
// and no descriptor.
//
// The input is a list of choices: records with valid and invalid fields, descriptors that come with
// them, prefetches that make the daemon ask.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>

#include "abi/version.h"
#include "control/paging/announcement.h"
#include "control/paging/share_channel.h"
#include "mmu/backing_file.h"
#include "mmu/faults/fault_queue.h"
#include "mmu/pager/pager.h"
#include "mmu/quiescence.h"
#include "shares/shares.h"
#include "tests/fuzz/byte_source.h"

namespace uroce::control {
namespace {

using test::ByteSource;

constexpr std::size_t kStepsMax = 64;
constexpr std::uint32_t kPiecesMax = 8;       // of a record that is made of choices
constexpr std::uint32_t kDescriptorsMax = 3;  // of a record
constexpr std::uint64_t kFileBytes = 2 * Mirror::kChunk;
constexpr std::uint64_t kAddresses[] = {0, 0x7000'0000'0000,
                                        Mirror::kAddressEnd - 2 * Mirror::kChunk,
                                        Mirror::kSegment - Mirror::kChunk};

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "paging_fuzzer: %s\n", what);
    std::abort();
  }
}

// Plays the fault and the invalidation thread for one program.
class Daemon final : public PagingPeer {
 public:
  void step(ByteSource& input);
  void end();
  [[nodiscard]] const std::shared_ptr<Account>& account() const { return account_; }

  bool ask(Mirror& /*mirror*/, std::uint64_t /*first*/, std::uint64_t /*end*/, bool /*write*/,
           std::uint32_t sequence) override {
    asked_ = sequence;
    return true;
  }
  void forget(const std::shared_ptr<Mirror>& of, std::uint64_t first, std::uint64_t end) override {
    of->invalidate(0, first, end, true);
    of->unblock(0);
    retry_faults_ = true;
  }
  void retry_faults(const std::shared_ptr<Mirror>& /*of*/) override { retry_faults_ = true; }
  Time clock() override { return now_; }
  void in_background(bool /*begins*/) override {}

 private:
  void handle_record(ByteSource& input, Record record);
  void check(const ShareChannel::Answer& answer) const;
  void announced(const Record& record);
  void take_away(std::uint32_t block, std::uint64_t first, std::uint64_t end, bool forget);
  void prefetch(ByteSource& input);
  void touch(ByteSource& input) const;
  void serve();

  Shares shares_;
  std::shared_ptr<Account> account_ = shares_.of({.uid = ::geteuid() + 1});
  Quiescence quiescence_;
  std::shared_ptr<Mirror> mirror_ = std::make_shared<Mirror>(quiescence_, UniqueFd(), 1, account_);
  ShareChannel::Lines lines_;
  std::optional<ShareChannel> channel_{
      std::in_place, mirror_, nullptr, Peer{::getpid(), ::getuid(), ::getgid()}, 1, lines_};
  FaultQueue queue_{1};
  Pager pager_{queue_, *this};
  std::vector<std::uint32_t> open_;  // invalidations that haven't ended
  std::uint32_t asked_ = 0;
  std::uint32_t wanted_ = 0, answered_ = 0;  // prefetches
  bool retry_faults_ = false;
  Time now_ = kNanosecondsPerSecond;
};

UniqueFd memory_file(bool sealed) {
  UniqueFd file(::memfd_create("fuzzed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(::ftruncate(file.get(), kFileBytes) == 0, "no memory");
  require(!sealed || ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0, "no seals");
  return file;
}

UniqueFd choose_descriptor(ByteSource& input) {
  switch (input.take<std::uint8_t>() % 16) {
    case 0:
      return memory_file(false);
    case 1:
      return UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    case 2: {
      UniqueFd file = memory_file(false);
      require(::ftruncate(file.get(), Mirror::kPage) == 0, "no truncated file");
      return file;
    }
    default:
      return memory_file(true);
  }
}

std::uint64_t choose_address(ByteSource& input) {
  return kAddresses[input.below(std::size(kAddresses))] + input.below(1'024) * Mirror::kPage;
}

// A record of one of the three kinds, or of an unknown one.
template <typename Body>
Record record_of(Body body, abi::PagingKind kind, std::uint32_t sequence, std::size_t more = 0) {
  Record record;
  record.bytes.resize(sizeof(body) + more);
  body.header = {.version = abi::kVersion,
                 .kind = kind,
                 .sequence = sequence,
                 .length = static_cast<std::uint32_t>(record.bytes.size())};
  std::memcpy(record.bytes.data(), &body, sizeof(body));
  return record;
}

abi::PieceKind choose_kind(ByteSource& input) {
  using enum abi::PieceKind;
  constexpr abi::PieceKind kKinds[] = {kArena, kDescriptor, kArena, kMapFiles, kProcMem};
  const std::uint32_t choice = input.take<std::uint8_t>() % 32;
  return choice == 31 ? abi::PieceKind{} : kKinds[choice % std::size(kKinds)];
}

Record choose_answer(ByteSource& input, std::uint32_t sequence) {
  const std::uint32_t count = input.below(kPiecesMax + 1);
  abi::SharedRange head{};
  head.end = choose_address(input) + input.below(3) * Mirror::kChunk;
  head.error = input.take<std::uint8_t>() % 8 == 1 ? 5 : 0;
  head.piece_count = count;
  Record record =
      record_of(head, abi::PagingKind::kSharedRange, sequence, count * sizeof(abi::SharedPiece));
  std::uint64_t address = choose_address(input);
  for (std::uint32_t i = 0; i < count; ++i) {
    abi::SharedPiece piece{};
    piece.memory = {.address = address,
                    .length = (1 + input.below(512)) * Mirror::kPage,
                    .offset = input.below(512) * Mirror::kPage,
                    .map_start = address,
                    .map_end = address + Mirror::kPage,
                    .kind = choose_kind(input),
                    .source = input.take<std::uint8_t>() % 8 == 1 ? 1U : 0U};
    piece.rights =
        input.take<std::uint8_t>() % 8 == 1 ? 2U : 1U + input.take<std::uint8_t>() % 2U * 2U;
    std::memcpy(record.bytes.data() + sizeof(head) + i * sizeof(piece), &piece, sizeof(piece));
    // Mostly in ascending order, as required.
    address = input.take<std::uint8_t>() % 16 == 1 ? choose_address(input)
                                                   : address + piece.memory.length;
  }
  return record;
}

Record choose_announcement(ByteSource& input) {
  const std::uint32_t sequence = input.take<std::uint8_t>() % 4U;
  if (input.flag()) {
    Record record;
    abi::PagingHeader header{.version = abi::kVersion,
                             .kind = abi::PagingKind::kInvalidateEnd,
                             .sequence = sequence,
                             .length = sizeof(header)};
    record.bytes.resize(sizeof(header));
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    return record;
  }
  abi::Invalidate wanted{};
  wanted.address = input.flag() ? choose_address(input) : input.take<std::uint64_t>();
  wanted.length = input.flag() ? input.below(1'024) * Mirror::kPage : input.take<std::uint64_t>();
  wanted.reason = static_cast<abi::InvalidateReason>(input.take<std::uint8_t>() % 5);
  return record_of(wanted, abi::PagingKind::kInvalidate, sequence);
}

// Rarely: a broken record ends the channel.
void spoil(ByteSource& input, Record* record) {
  if (input.take<std::uint8_t>() % 8 != 1) {
    return;
  }
  for (std::uint32_t left = input.take<std::uint8_t>() % 4; left != 0; --left) {
    record->bytes[input.below(static_cast<std::uint32_t>(record->bytes.size()))] =
        std::byte{input.take<std::uint8_t>()};
  }
  if (input.take<std::uint8_t>() % 16 == 1) {
    record->bytes.resize(input.below(static_cast<std::uint32_t>(record->bytes.size()) + 1));
  }
}

// Mostly as many as the header announces.
void add_descriptors(ByteSource& input, Record* record) {
  const std::uint32_t count = input.take<std::uint8_t>() % (kDescriptorsMax + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    record->descriptors.push_back(choose_descriptor(input));
  }
  abi::PagingHeader header;
  if (record->bytes.size() >= sizeof(header) && input.take<std::uint8_t>() % 16 != 1) {
    std::memcpy(&header, record->bytes.data(), sizeof(header));
    header.descriptor_count = count;
    std::memcpy(record->bytes.data(), &header, sizeof(header));
  }
}

void Daemon::step(ByteSource& input) {
  const std::uint32_t sequence = input.flag() ? asked_ : input.take<std::uint8_t>();
  Record record;
  switch (input.take<std::uint8_t>() % 5) {
    case 0: {
      abi::PagingArena arena{};
      arena.page_size = input.flag() ? Mirror::kPage : input.take<std::uint32_t>();
      record = record_of(arena, abi::PagingKind::kArena, sequence);
      spoil(input, &record);
      add_descriptors(input, &record);
      return handle_record(input, std::move(record));
    }
    case 1:
      record = choose_answer(input, sequence);
      spoil(input, &record);
      add_descriptors(input, &record);
      return handle_record(input, std::move(record));
    case 2:
      record = choose_announcement(input);
      spoil(input, &record);
      return announced(record);
    case 3:
      return prefetch(input);
    default:
      return touch(input);
  }
}

void Daemon::handle_record(ByteSource& input, Record record) {
  if (!channel_) {
    return;
  }
  std::vector<OpenedFile> opened;  // by a helper; it failed for some
  for (std::uint32_t left = input.take<std::uint8_t>() % 3; left != 0; --left) {
    UniqueFd descriptor = input.flag() ? choose_descriptor(input) : UniqueFd();
    const auto facts = check_file(descriptor.get());
    opened.push_back(facts ? OpenedFile{std::move(descriptor), *facts} : OpenedFile{});
  }
  ShareChannel::Answer answer;
  switch (channel_->handle_record(ReceiveStatus::kRecord, std::move(record), std::move(opened),
                                  &answer)) {
    case ShareChannel::AnswerStatus::kAnswer:
      check(answer);
      pager_.answered(mirror_, answer.sequence, answer.end, answer.pieces, now_);
      break;
    case ShareChannel::AnswerStatus::kArena:
      break;
    case ShareChannel::AnswerStatus::kBroken:
      mirror_->close();
      channel_.reset();
      pager_.changed(mirror_, now_);
      break;
    default:
      require(false, "a record that is there wasn't handled");
  }
  serve();
}

void Daemon::check(const ShareChannel::Answer& answer) const {
  std::uint64_t last = 0;
  for (const MirrorPiece& piece : answer.pieces) {
    require(piece.address % Mirror::kPage == 0 && piece.length % Mirror::kPage == 0 &&
                piece.length != 0,
            "a piece isn't of whole pages");
    require(piece.address >= last && piece.length <= Mirror::kAddressEnd - piece.address,
            "a piece lies where none can");
    require(piece.descriptor < 0 || ::fcntl(piece.descriptor, F_GETFD) >= 0,
            "a piece has a descriptor that isn't open");
    last = piece.address + piece.length;
  }
}

void Daemon::announced(const Record& record) {
  const auto said = read_announcement(record);
  if (!said || (!said->over && open_.size() >= abi::kInvalidationsMax)) {
    return;
  }
  const std::uint32_t block = said->sequence | 0x8000'0000U;
  if (said->over) {
    std::erase(open_, block);
    mirror_->unblock(block);
    pager_.changed(mirror_, now_);
    return serve();
  }
  require(said->first % Mirror::kPage == 0 && said->end % Mirror::kPage == 0 &&
              said->first <= said->end && said->end <= Mirror::kAddressEnd,
          "what is taken away isn't a range");
  take_away(block, said->first, said->end, said->forget);
  open_.push_back(block);
}

void Daemon::take_away(std::uint32_t block, std::uint64_t first, std::uint64_t end, bool forget) {
  require(mirror_->invalidate(block, first, end, forget), "a worker hangs, but there is none");
  for (std::uint64_t at = first; at < std::min(end, first + 16 * Mirror::kPage);
       at += Mirror::kPage) {
    Span span;
    require(mirror_->find(at, 1, false, &span) != Access::kGranted, "a page is there still");
  }
}

void Daemon::prefetch(ByteSource& input) {
  ++wanted_;
  pager_.prefetch({.mirror = mirror_,
                   .address = choose_address(input),
                   .length = 1 + input.below(16) * Mirror::kPage,
                   .write = input.flag(),
                   .faulting = input.take<std::uint8_t>() % 8 != 1,
                   .done = [this](Access /*outcome*/) { ++answered_; }},
                  now_);
  serve();
}

// As a worker would.
void Daemon::touch(ByteSource& input) const {
  const bool write = input.flag();
  Span span;
  if (mirror_->find(choose_address(input), 1 + input.below(Mirror::kPage), write, &span) !=
          Access::kGranted ||
      span.host == nullptr) {
    return;
  }
  // No file here is truncated, so granted memory is accessible.
  auto* const last = reinterpret_cast<volatile std::uint8_t*>(span.host + span.length - 1);
  const std::uint8_t byte = *last;
  if (write) {
    *last = byte;
  }
}

void Daemon::serve() {
  for (bool busy = true; busy;) {
    busy = pager_.serve(now_);
    if (std::exchange(retry_faults_, false)) {
      pager_.changed(mirror_, now_);
      busy = true;
    }
  }
}

void Daemon::end() {
  mirror_->close();
  pager_.changed(mirror_, now_);
  serve();
  while (pager_.deadline() != kNever) {
    now_ = std::max(now_ + 1, pager_.deadline());
    pager_.expire(now_);
  }
  require(answered_ == wanted_, "a prefetch is waited for still");
  take_away(1, 0, Mirror::kAddressEnd, true);
  require(mirror_->resident_bytes() == 0, "something is resident still");
  channel_.reset();
  require(mirror_.use_count() == 1, "somebody has the mirror still");
}

int next_descriptor() { return UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 0)).get(); }

}  // namespace
}  // namespace uroce::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::control;
  const int before = next_descriptor();
  std::shared_ptr<uroce::Account> account;
  {
    Daemon daemon;
    account = daemon.account();
    ByteSource input(data, size);
    for (std::size_t i = 0; i < kStepsMax && !input.empty(); ++i) {
      daemon.step(input);
    }
    daemon.end();
  }
  for (const auto limit : {uroce::Limit::kMappings, uroce::Limit::kAddressSpace,
                           uroce::Limit::kDescriptors, uroce::Limit::kPagingMemory}) {
    require(account->used(limit) == 0, "something is paid for still");
  }
  require(next_descriptor() == before, "a descriptor is open still");
  return 0;
}
