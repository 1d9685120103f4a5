#include "verbs_shim/memory/hooks/entry_forms.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace uroce::shim {
namespace {

bool begins(const Code* at, const EntryForm& form) {
#if defined(__x86_64__)
  return std::memcmp(at, form.opcode, form.opcode_bytes) == 0;
#else
  std::uint32_t instruction = 0;
  std::memcpy(&instruction, at, sizeof(instruction));
  return (instruction & form.mask) == form.opcode;
#endif
}

}  // namespace

const EntryForm* entry_form(const Code* at) {
  const auto* form = std::find_if(std::begin(kEntryForms), std::end(kEntryForms),
                                  [at](const EntryForm& one) { return begins(at, one); });
  return form == std::end(kEntryForms) ? nullptr : form;
}

}  // namespace uroce::shim
