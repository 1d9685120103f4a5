#pragma once

// A stand-in for dataplane/qp/memory/memory.cc, for tests of parking: addresses are the test's own,
// keys aren't checked, and pages that the test names aren't resident.

#include <cstdint>
#include <functional>

#include "mmu/access.h"

namespace uroce::test {

// Whether the byte at this address isn't resident.
extern std::function<bool(std::uint64_t address)> missing;
// The answer to an access there.
extern Access answer_where_missing;

}  // namespace uroce::test
