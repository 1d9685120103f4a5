#pragma once

// The mirror of a program's address space: the parts of its memory that the daemon can access on
// demand. One per session; every on-demand region of the session is a range of it.
//
// A segment is 1 GiB of the daemon's own address space, reserved when something in it is first
// needed; the program's pages are mapped there, each at the offset given by its address in the
// program. A chunk, 2 MiB of it, has three bits per page for the workers.
//
// Workers read bits and pages without locks. Everything else is under the mutex: the fault thread
// (Pager) describes and populates, the invalidation thread invalidates and evicts. The rule between
// them: a page's mapping changes only while its bits are clear and every worker has passed a
// quiescent state since they were cleared. A chunk of which nothing is known any more is freed.

#include <array>
#include <atomic>
#include <bit>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "abi/memory_piece.h"
#include "base/page.h"
#include "base/unique_fd.h"
#include "mmu/access.h"
#include "mmu/faults/fault_quota.h"
#include "mmu/faults/fault_statistics.h"
#include "mmu/mirror/change_list.h"
#include "mmu/mirror/stepped_charge.h"
#include "mmu/region.h"
#include "shares/shares.h"

namespace uroce {

class Quiescence;

// A piece of memory that the program described, with its open file.
struct MirrorPiece {
  struct File {
    std::uint64_t device = 0, inode = 0;
    bool operator==(const File&) const = default;
  };
  std::uint64_t address = 0;  // whole pages
  std::uint64_t length = 0;
  int descriptor = -1;  // -1: accessed through /proc/PID/mem
  std::uint64_t offset = 0;
  std::uint64_t page_size = kPage;
  bool write = false;      // may be written
  bool anonymous = false;  // an arena: missing pages are zeroes, writing costs no disk space
  bool durable = false;    // a file that outlives the machine's memory
  File file{};
};

class Mirror {
 public:
  static constexpr std::uint64_t kPage = uroce::kPage;
  static constexpr std::uint64_t kChunk = 2ULL << 20U;
  static constexpr std::uint64_t kSegment = 1ULL << 30U;
  static constexpr std::uint64_t kAddressEnd = uroce::kAddressEnd;
  static constexpr std::size_t kPagesInChunk = kChunk / kPage;
  static constexpr std::size_t kWords = kPagesInChunk / 64;
  // The memory that a program has touched and not unmapped: 2 TiB, in 16 TiB of addresses.
  static constexpr std::size_t kChunksMax = 1U << 20U;
  static constexpr std::size_t kSegmentsMax = 1U << 14U;
  static constexpr std::size_t kTableBytes = kAddressEnd / kSegment * sizeof(void*);

  static constexpr std::uint64_t chunk_floor(std::uint64_t address) {
    return align_floor(address, kChunk);
  }

  // `remote`: the program's memory as a file, for memory that can't be mapped; may be invalid.
  // `session`: its number, for reports. `account` is charged for mappings, addresses and
  // bookkeeping; `faults` counts those of all sessions of the user.
  Mirror(Quiescence& quiescence, UniqueFd remote, std::uint64_t session = 0,
         std::shared_ptr<Account> account = make_private_account(),
         std::shared_ptr<FaultCount> faults = nullptr);
  ~Mirror();  // no worker and no thread of the daemon uses it any more
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Whether the daemon could allocate what every mirror needs. Otherwise no other function may be
  // called.
  [[nodiscard]] bool usable() const { return segments_ != nullptr; }
  [[nodiscard]] int remote() const { return remote_.get(); }
  // The thread that accesses unmapped memory. Set before the first region is made, with the charge
  // for the descriptor `remote`.
  [[nodiscard]] const std::shared_ptr<ProcMemThread>& program() const { return program_; }
  void set_program(std::shared_ptr<ProcMemThread> program, Charge remote) {
    program_ = std::move(program);
    remote_charge_ = std::move(remote);
  }
  [[nodiscard]] std::uint64_t session() const { return session_; }
  [[nodiscard]] const User& user() const { return account_->user(); }
  [[nodiscard]] const std::shared_ptr<Account>& account() const { return account_; }
  [[nodiscard]] FaultStatistics& statistics() { return statistics_; }
  [[nodiscard]] FaultQuota& fault_quota() { return fault_quota_; }
  // Ranges that are being prefetched: control adds, the fault thread removes. Orders nothing.
  [[nodiscard]] std::atomic<std::uint32_t>& prefetches() { return prefetches_; }
  // Whether a retry of its faults is in the fault thread's queue.
  [[nodiscard]] std::atomic<bool>& retry_queued() { return retry_queued_; }

  // Workers: the longest run at `address` that is resident and contiguous here, at most `length`
  // bytes; kNotResident if there is none. REQUIRES: length != 0.
  Access find(std::uint64_t address, std::uint64_t length, bool write, Span* span) const;
  // Workers: whether the program has unmapped or dropped a page of [first, end) after find()
  // granted it, in a turn in which changes() was `since`. Also true when that is too long ago to
  // know. An invalidation can't end before that turn, and its end counts as a change, too.
  // REQUIRES: find() grants the range again.
  [[nodiscard]] bool emptied(std::uint64_t since, std::uint64_t first, std::uint64_t end) const {
    return changes_.touches(ChangeList::Kind::kContents, since, first, end);
  }
  // Workers: populates the page at `address` if that doesn't block: an arena's page that the
  // program has described, on a machine without swap (where such a page is in memory, or doesn't
  // exist yet), while no other thread has the mirror's mutex. False: take a fault.
  bool populate_inline(std::uint64_t address, bool write);
  // Whether populate_inline() would succeed, if the mutex is free.
  [[nodiscard]] bool can_populate_inline(std::uint64_t address, bool write);
  // Disables populate_inline(), before first use: resident memory is limited, and the fault thread
  // enforces the limit.
  void faults_only() { inline_allowed_ = false; }
  // Something couldn't be described: kChunksMax, kSegmentsMax, no addresses left, or no more
  // bookkeeping memory for this user.
  [[nodiscard]] bool full() const { return full_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t chunk_count();
  [[nodiscard]] std::uint64_t populated_inline() const {
    return populated_inline_.load(std::memory_order_relaxed);
  }

  // The fault thread.

  enum class State : std::uint8_t {
    kUnknown,  // the program must describe it
    kNoWrite,  // known, but not to be written
    kAbsent,   // known, bits not set: populate
    kResident,
    kBlocked,  // about to change: wait
    kClosed,   // the session has ended
    kOutside,  // not an address of a program
  };
  struct PageRun {
    State state = State::kUnknown;
    std::uint64_t first = 0, end = 0;  // the run that is in this state; within one chunk
    std::uint64_t changes = 0;         // changes() at that time
    bool anonymous = false;            // an arena's pages
  };
  // The next step for the pages at `first`.
  PageRun find_run(std::uint64_t first, std::uint64_t end, bool write);

  // The number of changes so far: to be passed to describe() with the program's later answer.
  [[nodiscard]] std::uint64_t changes() const { return changes_.count(); }
  // Was a page of the range invalidated, or an invalidation of it over, since changes() said
  // `since`? Also true when that is too long ago to know.
  bool changed(std::uint64_t since, std::uint64_t first, std::uint64_t end);
  // The program's description of [first, end), whole chunks. Pages that have changed since `asked`
  // are left as they are. ENOMEM-like failures make pages remote.
  void describe(std::uint64_t first, std::uint64_t end, std::span<const MirrorPiece> pieces,
                std::uint64_t asked);

  enum class Populated : std::uint8_t {
    kDone,
    kChanged,  // invalidated since: try again
    kFailed,   // the memory isn't available (file truncated, no memory)
  };
  // Populates pages that find_run() called kAbsent: a run, or a part of one.
  Populated populate(const PageRun& run, bool write);
  // Sets the bits of pages that are in memory already; for PREFETCH_NO_FAULT.
  void adopt_present(std::uint64_t first, std::uint64_t end);

  // The invalidation thread.

  // Clears the bits of a range and returns when no worker holds anything of it. `forget`: the
  // program must describe it again. `keeps`: its contents stay. Until unblock(id), faults there
  // find kBlocked. False: a worker hangs and may hold something of it, so the daemon's mappings of
  // it stay.
  bool invalidate(std::uint32_t id, std::uint64_t first, std::uint64_t end, bool forget,
                  bool keeps = false);
  // The same in slices of bounded time each; between two of them others can use the mirror, and the
  // caller may serve other programs. The whole range is blocked from the beginning.
  struct Invalidation {
    std::uint64_t next = 0, end = 0;  // what is left of the range
    bool forget = false;
    bool in_vain = false;  // a worker hangs and may hold something of it
  };
  static constexpr std::size_t kSliceChunks = 256;       // chunks that change
  static constexpr std::size_t kSliceLooks = 1U << 16U;  // chunks examined, existing or not
  Invalidation begin_invalidation(std::uint32_t id, std::uint64_t first, std::uint64_t end,
                                  bool forget, bool keeps = false);
  bool clear_next_slice(Invalidation& invalidation);  // false: that was the last slice
  void unblock(std::uint32_t id);
  // Releases at least `bytes` of the coldest resident pages, if there are as many; returns the
  // number. The program keeps its contents.
  std::uint64_t evict(std::uint64_t bytes);
  void close();  // everything that waits fails
  [[nodiscard]] bool closed();

  // Any thread that may wait for a disk.

  // Returns when everything written to [first, end) so far is on disk; kNoRight if part of it is
  // memory that isn't backed by a disk.
  Access sync(std::uint64_t first, std::uint64_t end);

  [[nodiscard]] std::uint64_t resident_bytes() const {
    return resident_pages_.load(std::memory_order_relaxed) * kPage;
  }
  [[nodiscard]] std::uint64_t evicted_bytes() const {
    return evicted_.load(std::memory_order_relaxed);
  }
  // Starts a new period for telling cold from hot.
  void tick() { epoch_.fetch_add(1, std::memory_order_relaxed); }

 private:
  using Bits = std::array<std::atomic<std::uint64_t>, kWords>;
  using PlainBits = std::array<std::uint64_t, kWords>;

  // Identifies the target of a mapping: mappings with the same place continue each other.
  struct Place {
    MirrorPiece::File file;
    std::uint64_t distance = 0;  // of an address from its offset in the file
    bool write = false;
    bool operator==(const Place&) const = default;
  };
  struct Chunk {
    // Set with release by the fault thread when the page may be touched; read with acquire by
    // workers, who then see the mapping. `remote` changes only while both others are clear.
    Bits readable{};
    Bits writable{};
    Bits remote{};
    std::byte* host = nullptr;              // of the chunk's first byte
    std::atomic<std::uint32_t> touched{0};  // the epoch of the last use; orders nothing

    // Under the mutex.
    std::uint64_t address = 0;
    PlainBits known{};  // the mapping is the program's
    PlainBits may_write{};
    PlainBits anonymous{};
    PlainBits durable{};
    PlainBits begins{};          // a mapping of the daemon's begins here
    Place place{};               // of the chunk, if it is a single mapping
    bool whole = false;          // it is a single mapping
    std::uint32_t resident = 0;  // pages with bits set, except remote ones
    bool huge = false;           // has had pages that take long to zero
  };
  static constexpr std::size_t kChunksInSegment = kSegment / kChunk;
  struct Segment {
    std::array<std::atomic<Chunk*>, kChunksInSegment> chunks{};
    std::byte* host = nullptr;
    void* reservation = nullptr;

    // Under the mutex.
    std::array<std::unique_ptr<Chunk>, kChunksInSegment> owned;
    std::bitset<kChunksInSegment> known;    // chunks of which something is known
    std::bitset<kChunksInSegment> reached;  // in which workers may touch something
  };
  struct Block {
    std::uint32_t id;
    std::uint64_t first, end;
    ChangeList::Kind kind;
  };

  Segment* segment_of(std::uint64_t address);
  [[nodiscard]] Chunk* chunk_of(std::uint64_t address) const;
  Chunk* make_chunk(std::uint64_t address);
  bool charge_parts(std::size_t parts);
  bool charge_notes(std::size_t chunks);
  [[nodiscard]] Segment& segment_with(const Chunk& chunk) const {
    return *segments_[chunk.address / kSegment].load(std::memory_order_relaxed);
  }
  void note_mapping(Chunk& chunk, const MirrorPiece& piece, std::size_t first, std::size_t end);
  [[nodiscard]] std::size_t parts_around(std::uint64_t address) const;
  bool clear_slice(Invalidation& invalidation, std::vector<std::unique_ptr<Chunk>>* gone);
  std::unique_ptr<Chunk> unpublish(const Chunk& chunk);
  void unmap(std::vector<std::unique_ptr<Chunk>> taken);
  static void unmap_pages(std::byte* host, std::size_t length);
  void unmap_others(const Chunk& chunk);
  Chunk* chunk_for_inline(std::uint64_t first, bool write);
  [[nodiscard]] bool blocked(std::uint64_t first, std::uint64_t end) const;
  [[nodiscard]] bool differs(std::uint64_t since, std::uint64_t first, std::uint64_t end) const;
  void describe_chunk(const MirrorPiece& piece, std::uint64_t first, std::uint64_t end,
                      std::uint64_t asked);
  void set_resident(Chunk& chunk, std::size_t first, std::size_t end, bool slow, bool write);
  void map(const MirrorPiece& piece, std::uint64_t first, std::uint64_t end);
  bool clear(Chunk& chunk, std::size_t first_page, std::size_t end_page, bool forget);
  template <typename Visit>
  void for_each_chunk(std::uint64_t first, std::uint64_t end, Visit&& visit);

  Quiescence& quiescence_;
  UniqueFd remote_;
  Charge remote_charge_;
  std::shared_ptr<ProcMemThread> program_;
  std::uint64_t session_;
  FaultStatistics statistics_;
  FaultQuota fault_quota_;
  std::atomic<std::uint32_t> prefetches_{0};
  std::atomic<bool> retry_queued_{false};
  // Published with release, under the mutex; workers read with acquire. In a mapping of its own:
  // most of it is never touched.
  std::atomic<Segment*>* segments_ = nullptr;
  std::atomic<std::uint32_t> epoch_{1};
  std::atomic<std::uint64_t> resident_pages_{0};  // counts; order nothing
  std::atomic<std::uint64_t> evicted_{0};
  std::atomic<std::uint64_t> populated_inline_{0};
  std::atomic<bool> full_{false};
  bool inline_allowed_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Segment>> owned_;
  std::size_t chunk_count_ = 0;
  std::size_t part_count_ = 0;  // mappings of the daemon's
  std::size_t parts_max_;
  std::shared_ptr<Account> account_;
  // The amounts charged; see charge_parts(), segment_of() and charge_notes().
  SteppedCharge mappings_{64};
  Charge addresses_;
  SteppedCharge notes_{64ULL << 10U};
  std::vector<Block> blocks_;
  ChangeList changes_;  // of which workers read
  bool closed_ = false;
  std::vector<std::unique_ptr<Chunk>> unreclaimed_;  // removed, but perhaps used by a stuck worker
};

inline Access Mirror::find(std::uint64_t address, std::uint64_t length, bool write,
                           Span* span) const {
  if (address >= kAddressEnd) {
    return Access::kNotResident;  // the fault will report that it isn't an address
  }
  const Segment* segment = segments_[address / kSegment].load(std::memory_order_acquire);
  Chunk* chunk = segment == nullptr
                     ? nullptr
                     : segment->chunks[address % kSegment / kChunk].load(std::memory_order_acquire);
  if (chunk == nullptr) {
    return Access::kNotResident;
  }
  const std::uint64_t inside = address % kChunk;
  const std::uint64_t wanted = std::min(length, kChunk - inside);
  const Bits& bits = write ? chunk->writable : chunk->readable;
  const std::size_t last = (inside + wanted - 1) / kPage;
  std::size_t page = inside / kPage;
  const auto is_set = [](const Bits& of, std::size_t at) {
    return (of[at / 64].load(std::memory_order_acquire) >> (at % 64) & 1U) != 0;
  };
  if (!is_set(bits, page)) {
    return Access::kNotResident;
  }
  const bool slow = is_set(chunk->remote, page);
  while (page < last && is_set(bits, page + 1) && is_set(chunk->remote, page + 1) == slow) {
    ++page;
  }
  if (const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed);
      chunk->touched.load(std::memory_order_relaxed) != epoch) {
    chunk->touched.store(epoch, std::memory_order_relaxed);
  }
  span->host = slow ? nullptr : chunk->host + inside;
  span->remote_address = address;
  span->length = std::min(wanted, (page + 1) * kPage - inside);
  return Access::kGranted;
}

}  // namespace uroce
