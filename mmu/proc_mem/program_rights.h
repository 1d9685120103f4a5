#pragma once

// Whether the user of a program could have reached its memory without the daemon's help.
//
// A program can connect, leave the socket to a child and exec one with more rights: set-uid,
// set-gid, with file capabilities, or that its user can't read. Nobody else may reach such a
// program's memory (ptrace(2) lists the kernel's conditions), but the daemon, which may be root,
// could, on behalf of the child. When a program got its rights can't be known: between connect()
// and accept() it may have become another. So those that have them from the start aren't reached
// either.

#include "base/program_process.h"
#include "base/result.h"

namespace uroce {

// EPERM with a sentence unless the process has only the user and the group with which it connected,
// and the kernel doesn't keep it from that user for capabilities, or a file that the user can't
// read. Capabilities that reach nothing of anybody's don't matter, unless they came from a file.
// Call it after something of the process was opened: a process that had more rights then and still
// exists as it was still shows them, or, if it has given them up for good, is its user's. Root's
// programs have all rights anyway. An unreadable file that is run as the interpreter of another
// isn't noticed.
Status check_rights(const ProgramProcess& program);

}  // namespace uroce
