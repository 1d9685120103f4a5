#pragma once

// Which process holds UDP port 4791, for the error message when it can't be bound.

#include <string>

#include "dataplane/wire/address.h"

namespace uroce {

// "uroced (process 1234)", "a process of user 1000" where that one isn't ours to look into, "the
// kernel" where no process has it. Empty: nobody has it, as far as /proc tells.
std::string roce_port_holder(const Gid& address);
// That it is taken, by whom, and what to do about it.
std::string roce_port_taken(const Gid& address);

}  // namespace uroce
