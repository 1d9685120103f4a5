#pragma once

// Checks of the files that a program passes as the backing of its memory, before they are mapped.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>

#include "abi/memory_piece.h"
#include "base/page.h"
#include "base/program_process.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "shares/account.h"

namespace uroce {

inline constexpr std::uint64_t kFileMax = 1ULL << 63U;  // no offset in a file is larger

struct FileFacts {
  std::uint64_t page_size = kPage;
  std::uint64_t size = 0;
  std::uint64_t device = 0, inode = 0;
  std::uint32_t uid = 0;
  bool durable = false;  // outlives the machine's memory
};

// Whether a piece that a program describes is whole pages, in a part of its file that there can be.
constexpr bool is_whole_pages(const abi::MemoryPiece& piece) {
  return piece.address % kPage == 0 && piece.length % kPage == 0 && piece.offset % kPage == 0 &&
         piece.length != 0 && piece.offset < kFileMax && piece.length <= kFileMax - piece.offset;
}

// Whether a descriptor is a file whose operations can't block at a program's will: memory, or a
// file on a file system that only the administrator can have mounted, on a disk. The check itself
// may block for ever (control/foreign). Such a file can be examined, mapped and closed on any
// thread.
[[nodiscard]] bool is_answering_file(int descriptor);

// Whether the lines of a dmabuf's fdinfo show that it is backed by memory.
[[nodiscard]] bool is_memory_exporter(std::FILE* fdinfo);

// Refuses all others, by the same list. REQUIRES: is_answering_file(), or a thread that may block.
// Takes up to 0.1 ms, most of it on overlayfs, where it reads the list of mounts.
Result<FileFacts> check_file(int descriptor);

// The same for the descriptors of one record, each checked once, however many pieces name it: a
// record has tens of descriptors, but up to 65,536 pieces. They have to stay open until this goes.
class CheckedFiles {
 public:
  const Result<FileFacts>& check(int descriptor);
  [[nodiscard]] std::size_t count() const { return facts_.size(); }  // of those checked

 private:
  std::map<int, Result<FileFacts>> facts_;
};

// The same for a memfd that is to be an arena: sealed against shrinking, with pages of the size
// that the program stated.
Result<FileFacts> check_arena(int descriptor, std::uint64_t page_size);

// An arena that a session keeps.
struct CheckedArena {
  UniqueFd memfd;
  Charge charge;  // of the descriptor
  FileFacts facts;
};
// Checks and charges it. `before`: how many the session has of this kind. ENOSPC beyond
// abi::kArenasMax, ENOMEM by the user's limit, EINVAL as check_arena().
Result<CheckedArena> take_arena(UniqueFd memfd, std::uint64_t page_size, std::size_t before,
                                Account& account);

// A file that the daemon opened, and what it found out when it did.
struct OpenedFile {
  UniqueFd descriptor;
  FileFacts facts;
};
// The file behind a kMapFiles piece; its descriptor isn't valid if the daemon can't or mustn't open
// it, or can't map it for writing (base/sealed_file.h).
OpenedFile open_map_file(const ProgramProcess& program, const abi::MemoryPiece& piece,
                         bool writable);

}  // namespace uroce
