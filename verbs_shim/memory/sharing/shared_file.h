#pragma once

// The files behind shared mappings, for the daemon to map too.

#include <sys/stat.h>

#include <optional>

#include "base/sockets/descriptor_message.h"
#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::shim {

// Whether another process can map the descriptor as well, because it is a file or a dmabuf.
// `status` is its fstat().
bool is_memory(int descriptor, const struct stat& status);

// A descriptor of the file that `area` maps, open for writing if `writable`; invalid if the program
// can't open it (a System V segment or an anonymous shared mapping without privilege), or nobody
// can map it for writing any more (base/sealed_file.h).
UniqueFd open_shared_file(const MappedArea& area, bool writable);

// The files passed with the pieces of a range, each once. Uses no heap.
class PassedFiles {
 public:
  // At most kDescriptorsMax.
  explicit PassedFiles(std::uint32_t limit) : limit_(limit) {}

  // The file's index among them, opened if it is new. nullopt: it can't be opened, or there is no
  // room.
  std::optional<std::uint32_t> place_of(const MappedArea& area, bool writable);
  [[nodiscard]] bool full() const { return files_.count() == limit_; }
  // Removes those from index `count` on.
  void cut(std::uint32_t count) { files_.cut(count); }

  [[nodiscard]] std::uint32_t count() const { return files_.count(); }
  [[nodiscard]] int peek(std::uint32_t place) const { return files_.peek(place); }
  UniqueFd take(std::uint32_t place) { return files_.take(place); }

 private:
  struct Identity {
    std::uint64_t inode;
    std::uint32_t device_major, device_minor;
    bool writable;
    bool operator==(const Identity&) const = default;
  };
  std::uint32_t limit_;
  Identity identities_[kDescriptorsMax];
  Descriptors files_;
};

}  // namespace uroce::shim
