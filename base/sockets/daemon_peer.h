#pragma once

// Whom a program takes for its daemon. A daemon maps the memory of its programs, so the one that
// listens has to be root, the program's own user, or whom root has given the system's socket folder
// to. A path says nothing: whoever comes first can make a file in /tmp.

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
