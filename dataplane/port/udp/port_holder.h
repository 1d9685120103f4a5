#pragma once

// Which process holds UDP port 4791, for the error message when it can't be bound.

#include <string>

#include "dataplane/wire/address.h"

namespace uroce {

// "uroced (process 1234)", "a process of user 1000" if that process can't be examined, "the kernel"
// if no process has it. Empty: nobody has it, according to /proc.
std::string roce_port_holder(const Gid& address);
// The error message: that it is taken, by whom, and what to do about it.
std::string roce_port_taken(const Gid& address);

}  // namespace uroce
