#pragma once

// The operator new of the programs that these tests are in, which fails on demand.

namespace uroce::test {

// How many more allocations of this thread succeed before one fails; negative: none fails.
extern thread_local int until_failure;

}  // namespace uroce::test
