#pragma once

// `uroce doctor`.

#include <string>

namespace uroce {

// `library`: the libibverbs.so.1 that belongs to this tool; empty: there is none. The exit status:
// 0 if nothing is a problem, else 1.
int run_doctor(const std::string& library, bool json);

}  // namespace uroce
