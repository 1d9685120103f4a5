#pragma once

// Which daemon a program accepts. A daemon maps the memory of its programs, so the listening
// process has to be root, the program's own user, or the user to whom root has given the system's
// socket folder. The path proves nothing: anybody can create a file in /tmp first.

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

// EPERM, with a sentence that names who listens, unless the other end of `socket`, which has been
// connected to `path`, is to be trusted.
Status check_daemon(int socket, const std::string& path);

// As connect_to(), and then check_daemon().
Result<UniqueFd> connect_to_daemon(const std::string& path);

// Whether root has given the folder of the system's daemon to this user.
bool owns_system_folder(uid_t user);

// Whether what listens as `listener` at `path` may map the memory of user `own`.
bool may_serve(uid_t listener, uid_t own, const std::string& path);

}  // namespace uroce
