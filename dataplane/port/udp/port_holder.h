#pragma once

// Which process holds UDP port 4791, for the error message when it can't be bound.

#include <string>

#include "dataplane/wire/address.h"

namespace uroce {

// "uroced (process 1234)", "a process of user 1000" if that process can't be examined, "the kernel"
// if no process has it. Empty: /proc shows no holder.
std::string roce_port_holder(const Gid& address);
// The error message: the port is taken, the holder, and a remedy.
std::string roce_port_taken(const Gid& address);

}  // namespace uroce
