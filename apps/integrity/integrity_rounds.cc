#include "apps/integrity/integrity_rounds.h"

#include <cstdarg>
#include <cstdio>

namespace integrity {
namespace {

constexpr std::uint64_t kErrorsPrinted = 10;

}  // namespace

bool Rounds::meet() {
  std::uint64_t theirs = 0;
  if (!link_.exchange(round_, theirs) || theirs != round_) {
    wrong("the peer gave up in round %llu", static_cast<unsigned long long>(round_));
    return false;
  }
  return true;
}

void Rounds::wrong(const char* format, ...) {
  if (++errors_ <= kErrorsPrinted) {
    va_list arguments;
    va_start(arguments, format);
    std::fprintf(stderr, "integrity: round %llu: ", static_cast<unsigned long long>(round_));
    std::vfprintf(stderr, format, arguments);
    std::fprintf(stderr, "\n");
    va_end(arguments);
  }
}

}  // namespace integrity
