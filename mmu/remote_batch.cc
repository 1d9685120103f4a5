#include "mmu/remote_batch.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "mmu/remote_memory.h"

namespace uroce {

RemoteBatch::RemoteBatch()
    : read_(std::make_unique_for_overwrite<std::byte[]>(kBytes)),
      waiting_(std::make_unique_for_overwrite<std::byte[]>(kBytes)) {}

const std::byte* RemoteBatch::read(int memory, std::uint64_t address, std::size_t length,
                                   std::uint64_t ahead) {
  if (memory != read_memory_ || address != next_address_ || length > end_ - next_) {
    forget();
    const std::size_t most = std::min(kBytes, length + std::min<std::uint64_t>(ahead, read_ahead_));
    const ssize_t done =
        length > kBytes ? -1 : ::pread(memory, read_.get(), most, static_cast<off_t>(address));
    // What is ahead may be missing: whoever wants it finds out.
    if (done < static_cast<ssize_t>(length)) {
      return nullptr;
    }
    read_memory_ = memory;
    next_address_ = address;
    end_ = static_cast<std::size_t>(done);
  }
  const std::byte* const bytes = read_.get() + next_;
  next_ += length;
  next_address_ += length;
  if (next_ == end_) {
    read_ahead_ = std::min(2 * read_ahead_, kBytes);
  }
  return bytes;
}

void RemoteBatch::forget() {
  if (next_ != end_) {
    read_ahead_ = kReadAheadMin;  // others come in between, or the window is small
  }
  next_ = 0;
  end_ = 0;
  read_memory_ = -1;
}

void RemoteBatch::write(int memory, std::uint64_t address, const std::byte* source,
                        std::size_t length, bool more, bool* failed) {
  const bool continues = waiting_length_ != 0 && memory == write_memory_ && failed == failed_ &&
                         address == write_address_ + waiting_length_ &&
                         length <= kBytes - waiting_length_;
  if (!continues) {
    flush();
    if (!more || length > kBytes) {
      *failed = !write_program(memory, address, source, length) || *failed;
      return;
    }
    write_memory_ = memory;
    write_address_ = address;
    failed_ = failed;
  }
  std::memcpy(waiting_.get() + waiting_length_, source, length);
  waiting_length_ += length;
}

bool RemoteBatch::finish(bool* failed) {
  if (failed == failed_) {
    flush();
  }
  return !std::exchange(*failed, false);
}

void RemoteBatch::flush() {
  if (waiting_length_ != 0 && !write_program(write_memory_, write_address_, waiting_.get(),
                                             std::exchange(waiting_length_, 0))) {
    *failed_ = true;
  }
  failed_ = nullptr;
}

}  // namespace uroce
