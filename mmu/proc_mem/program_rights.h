#pragma once

// Whether the user of a program could have reached its memory himself.
//
// A program can connect, leave the socket to a child and exec one with more rights: set-uid,
// set-gid, with file capabilities. Nobody else may reach such a program's memory (ptrace(2) lists
// the kernel's conditions), but the daemon, which may be root, could, on behalf of the child.

#include "base/program_process.h"
#include "base/result.h"

namespace uroce {

// EPERM with a sentence unless the process has only the user and the group with which it connected,
// and no capabilities that keep others from it. Call it after something of the process was opened:
// a process that had more rights then and still exists as it was still shows them, or, if it has
// given them up for good, is its user's. Root's programs have all rights anyway.
Status check_rights(const ProgramProcess& program);

}  // namespace uroce
