#pragma once

// The operator new of the programs that these tests are in, which fails on demand.

namespace uroce::test {

// How many more allocations of this thread succeed before one fails; negative: none fails.
extern thread_local int until_failure;
// Those after it fail, too, until this is false again.
extern thread_local bool fails_for_good;

}  // namespace uroce::test
