#pragma once

// The daemon's end of the two paging channels, played by threads of the test: asks for chunks, maps
// them, and answers what the program's calls announce.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "abi/paging_records.h"
#include "base/unique_fd.h"
#include "verbs_shim/memory/paging/paging.h"

namespace uroce::test {

class PagingDaemon {
 public:
  struct Announced {
    std::uint64_t address, length;
    abi::InvalidateReason reason;
  };
  struct Shared {
    std::uint64_t end = 0;
    std::vector<abi::SharedPiece> pieces;
    std::vector<UniqueFd> descriptors;
  };

  PagingDaemon();
  ~PagingDaemon();
  PagingDaemon(const PagingDaemon&) = delete;
  PagingDaemon& operator=(const PagingDaemon&) = delete;

  // The answer for the chunks around the range.
  Shared ask(const void* address, std::uint64_t length, std::uint32_t rights = kReadWrite);

  // The page of `address` in the daemon, asked for if it isn't mapped; nullptr if it can't be
  // mapped. Valid until its next invalidation.
  std::byte* reach(const void* address);
  // One word through reach(); the range is locked against invalidations meanwhile.
  std::optional<std::uint64_t> load(const void* address);
  bool store(const void* address, std::uint64_t value);

  // What was announced since the last call.
  std::vector<Announced> announced();
  // Waits until every announced change has ended.
  void expect_all_ended() const;
  shim::PagingSession& session() { return *session_; }
  // The descriptor numbers of the program's ends.
  int share_number() const { return share_number_; }
  int invalidate_number() const { return invalidate_number_; }

  static constexpr std::uint32_t kReadWrite = abi::kPagingRead | abi::kPagingWrite;

 private:
  struct Page {
    std::uint64_t address;
    std::byte* host;  // nullptr: free
  };
  void answer_invalidations();
  void drop(std::uint64_t start, std::uint64_t end);
  std::byte* keep(std::uint64_t page, int file, std::uint64_t offset, bool writable);
  std::byte* reach_locked(std::uint64_t address);
  // The next record: in record_, its length returned; 0 at the end.
  std::size_t receive(std::vector<UniqueFd>* descriptors);

  UniqueFd share_, invalidate_;
  int share_number_ = -1, invalidate_number_ = -1;
  std::unique_ptr<shim::PagingSession> session_;
  std::vector<UniqueFd> arenas_;
  std::uint32_t sequence_ = 0;
  std::vector<std::byte> record_;
  std::mutex mutex_;  // guards what follows; held while a page is used
  // The thread that answers may not use the heap: that would cause changes of its own.
  std::vector<Page> pages_;
  std::vector<Announced> announced_;
  std::uint64_t generation_ = 0;
  std::atomic<int> under_way_{0};
  std::thread thread_;
};

}  // namespace uroce::test
