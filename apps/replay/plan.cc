#include "apps/replay/plan.h"

#include <sys/mman.h>

namespace uroce::replay {

std::shared_ptr<Memory> Memory::make(std::uint64_t length) {
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED
             ? nullptr
             : std::shared_ptr<Memory>(new Memory(static_cast<std::byte*>(memory), length));
}

Memory::~Memory() { ::munmap(data_, length_); }

}  // namespace uroce::replay
