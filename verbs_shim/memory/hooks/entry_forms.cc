#include "verbs_shim/memory/hooks/entry_forms.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace uroce::shim {

const EntryForm* entry_form(const Code* at) {
  const auto* form = std::find_if(
      std::begin(kEntryForms), std::end(kEntryForms),
      [at](const EntryForm& one) { return std::memcmp(at, one.opcode, one.opcode_bytes) == 0; });
  return form == std::end(kEntryForms) ? nullptr : form;
}

}  // namespace uroce::shim
