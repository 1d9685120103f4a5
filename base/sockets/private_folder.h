#pragma once

// The folder for sockets of a user's own daemons: nobody else may look into it, so nobody else can
// have put anything there. XDG_RUNTIME_DIR where that is such a folder, else /tmp/uroce-UID.

#include <string>

#include "base/result.h"

namespace uroce {

// Where it is or would be.
std::string private_folder();

// Makes it if need be. EPERM, with a sentence, if it is somebody else's or open to others.
Result<std::string> make_private_folder();

// The same for one place. REQUIRES: its parent is there.
Status make_private_folder_at(const std::string& path);

}  // namespace uroce
