#pragma once

// A memfd sealed with F_SEAL_FUTURE_WRITE can still be written through mappings that are older than
// the seal, but nobody can map it for writing any more: it is left to /proc/PID/mem.

#include <fcntl.h>

namespace uroce {

inline bool is_sealed_against_writing(int descriptor) {
  constexpr int kNoMoreWriters = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & kNoMoreWriters) != 0;
}

}  // namespace uroce
