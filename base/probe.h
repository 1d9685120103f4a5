#pragma once

// Static probes (USDT): a no-op each until perf, bpftrace or SystemTap puts a breakpoint there, and
// a note in the program that says where the arguments are. UROCE_PROBE1(name, a) to UROCE_PROBE3,
// of whole numbers. Their names and arguments are kept: apps/tracing/README.md lists them.

// Before a function: a probe in it is in one place of the program, and what is known where the
// function is called is an argument in a register nonetheless. perf takes no constants, and wants
// the arguments in the same registers wherever a probe is.
#ifdef __clang__
#define UROCE_ONE_PLACE [[gnu::noinline]]
#else
#define UROCE_ONE_PLACE [[gnu::noinline, gnu::noclone]]
#endif

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define UROCE_PROBE1(name, a) DTRACE_PROBE1(uroce, name, a)
#define UROCE_PROBE2(name, a, b) DTRACE_PROBE2(uroce, name, a, b)
#define UROCE_PROBE3(name, a, b, c) DTRACE_PROBE3(uroce, name, a, b, c)
#else
#define UROCE_PROBE1(name, a) (void)0
#define UROCE_PROBE2(name, a, b) (void)0
#define UROCE_PROBE3(name, a, b, c) (void)0
#endif
