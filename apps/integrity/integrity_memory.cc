#include "apps/integrity/integrity_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "apps/integrity/integrity_verbs.h"

namespace integrity {

Memory::Memory(std::size_t size, Odp odp, bool in_file) : mapped_(odp != Odp::kNo) {
  if (!mapped_) {
    heap_.resize(size);
    start_ = heap_.data();
    length_ = size;
    return;
  }
  length_ = (size + kPage - 1) / kPage * kPage + kSparePages * kPage;
  if (in_file) {
    file_ = memfd_create("integrity", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(length_)) != 0) {
      die("memfd_create");
    }
  }
  void* const start = mmap(nullptr, length_, PROT_READ | PROT_WRITE,
                           in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file_, 0);
  if (start == MAP_FAILED) {
    die("mmap");
  }
  start_ = static_cast<std::uint8_t*>(start);
}

Memory::~Memory() {
  if (mapped_) {
    munmap(start_, length_);
  }
  if (file_ >= 0) {
    close(file_);
  }
}

void Memory::map_again(std::size_t offset, std::size_t length) {
  if (mmap(start_ + offset, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    die("mmap over a file's pages");
  }
}

void Memory::drop(std::size_t offset, std::size_t length) {
  if (madvise(start_ + offset, length, MADV_DONTNEED) != 0) {
    die("madvise");
  }
}

void Memory::replace(std::size_t offset, std::size_t length) {
  if (munmap(start_ + offset, length) != 0 ||
      mmap(start_ + offset, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           -1, 0) == MAP_FAILED) {
    die("mmap where memory was");
  }
}

}  // namespace integrity
