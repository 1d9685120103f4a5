#pragma once

// A device file for programs that look for one: UCX lists no verbs device without
// /dev/infiniband/<name>. It is never read or written, so it is a link to /dev/null.

#include <string>

namespace uroce::control {

// Creates FOLDER/NAME if it is missing. Errors are ignored: most users may not write to /dev, and
// most programs don't need it. It stays when the daemon ends, since another one may use the same
// name.
void make_device_node(const std::string& name, const std::string& folder = "/dev/infiniband");

}  // namespace uroce::control
