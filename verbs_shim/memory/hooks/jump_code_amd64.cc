#include "verbs_shim/memory/hooks/jump_code.h"

#include <cstring>

namespace uroce::shim {
namespace {

constexpr Code kNearJump = 0xe9;
constexpr Code kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

}  // namespace

void write_far_jump(Code* at, const void* target) {
  constexpr Code kJumpToNextQuad[] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *0(%rip)
  std::memcpy(at, kJumpToNextQuad, sizeof(kJumpToNextQuad));
  std::memcpy(at + sizeof(kJumpToNextQuad), &target, sizeof(target));
}

void write_near_jump(Code* into, const Code* from, const Code* to) {
  const auto distance = static_cast<std::int32_t>(to - (from + kNearJumpBytes));
  into[0] = kNearJump;
  std::memcpy(into + 1, &distance, sizeof(distance));
}

void write_short_jump(Code* into, const Code* from, const Code* to) {
  into[0] = kShortJump;
  into[1] = static_cast<Code>(to - (from + kShortJumpBytes));
}

Code* jump_target(Code* at) {
  constexpr Code kMovRax[] = {0x48, 0xb8}, kJmpRax[] = {0xff, 0xe0};
  constexpr Code kMovR11[] = {0x49, 0xbb}, kJmpR11[] = {0x41, 0xff, 0xe3};
  constexpr std::size_t kMovBytes = 2 + sizeof(void*);
  Code* target = nullptr;
  if (at[0] == kNearJump) {
    std::int32_t distance = 0;
    std::memcpy(&distance, at + 1, sizeof(distance));
    return at + kNearJumpBytes + distance;
  }
  if ((std::memcmp(at, kMovRax, 2) == 0 && std::memcmp(at + kMovBytes, kJmpRax, 2) == 0) ||
      (std::memcmp(at, kMovR11, 2) == 0 && std::memcmp(at + kMovBytes, kJmpR11, 3) == 0)) {
    std::memcpy(&target, at + 2, sizeof(target));
  }
  return target;
}

std::size_t filler_length(const Code* at) {
  std::size_t prefixes = 0;
  while (at[prefixes] == 0x66 || at[prefixes] == 0x2e) {
    ++prefixes;
  }
  const Code* const op = at + prefixes;
  if (op[0] == 0x90 || (op[0] == 0xcc && prefixes == 0)) {
    return prefixes + 1;
  }
  if (op[0] != 0x0f || op[1] != 0x1f) {
    return 0;
  }
  switch (op[2]) {
    case 0x00:
      return prefixes + 3;
    case 0x40:
      return prefixes + 4;
    case 0x44:
      return prefixes + 5;
    case 0x80:
      return prefixes + 7;
    case 0x84:
      return prefixes + 8;
    default:
      return 0;
  }
}

Code* first_instruction(Code* entry) {
  const bool marked = std::memcmp(entry, kEndbr64, sizeof(kEndbr64)) == 0;
  return entry + (marked ? sizeof(kEndbr64) : 0);
}

}  // namespace uroce::shim
