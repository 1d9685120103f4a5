#pragma once

// The user that a program counts for.

#include "base/program_process.h"
#include "base/user.h"

namespace uroce {

// The user that a process counts for. One that has ended, whose number may be another's by now,
// counts for its uid.
//
// Every user may make user namespaces, as many as he likes, and in them be whoever his subordinate
// ids allow; so what runs in one counts for the user who made it. In those that root made (a
// container engine's), each namespace's users are users of their own. Where the namespace can't be
// looked at, the process counts for its uid.
User user_of(const ProgramProcess& process);
// The same by an open descriptor of the namespace (/proc/PID/ns/user); -1: unknown.
User user_in(int user_namespace, uid_t uid);

}  // namespace uroce
