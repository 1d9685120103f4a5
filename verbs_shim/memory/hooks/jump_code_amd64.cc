// The instructions of x86-64.

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

void write_jump_back(Code* at, const Code* target) { write_far_jump(at, target); }

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

Code* first_instruction(Code* entry) {
  const bool marked = std::memcmp(entry, kEndbr64, sizeof(kEndbr64)) == 0;
  return entry + (marked ? sizeof(kEndbr64) : 0);
}

}  // namespace uroce::shim
