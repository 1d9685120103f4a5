#include "verbs_shim/memory/hooks/short_jump.h"

#include <dlfcn.h>
#include <link.h>

#include "verbs_shim/memory/hooks/code_change.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/page_conversion.h"

namespace uroce::shim {
namespace {

constexpr std::size_t kShortJumpBytes = 2;

// Length of the padding instruction (nop in its sizes, int3) at `at`; 0: another instruction.
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

// Writes kShortJumpBytes, to be executed at `from`, within 127 bytes of `to`.
void write_short_jump(Code* into, const Code* from, const Code* to) {
  into[0] = kShortJump;
  into[1] = static_cast<Code>(to - (from + kShortJumpBytes));
}

}  // namespace

Code* find_padding(Code* entry) {
  constexpr int kReach = 120;
  constexpr std::size_t kAlignment = 16;
  for (int offset = -kReach; offset <= kReach; ++offset) {
    Code* const at = entry + offset;
    const Code* end = at;
    while (kernel::number(end) % kAlignment != 0 && filler_length(end) != 0) {
      end += filler_length(end);
    }
    const bool room =
        kernel::number(end) % kAlignment == 0 && end - at >= std::ptrdiff_t{kNearJumpBytes};
    Dl_info info;
    const ElfW(Sym)* symbol = nullptr;
    if (room &&
        ::dladdr1(at - 1, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                  RTLD_DL_SYMENT) != 0 &&
        symbol != nullptr && static_cast<Code*>(info.dli_saddr) + symbol->st_size == at) {
      return at;
    }
  }
  return nullptr;
}

bool put_short_jump(Code* at, Code* padding, const Code* to) {
  Code jump[kNearJumpBytes];
  write_near_jump(jump, padding, to);
  Code hop[kShortJumpBytes];
  write_short_jump(hop, at, padding);
  return fill_in_code(padding, jump, sizeof(jump)) && (synchronize_cores() || one_thread()) &&
         replace_code(at, hop, sizeof(hop));
}

}  // namespace uroce::shim
