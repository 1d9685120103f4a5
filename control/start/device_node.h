#pragma once

// A file that makes programs which look for a card's character device find one: UCX lists no verbs
// device without /dev/infiniband/<name>. Nobody reads or writes it, so it is a link to /dev/null.

#include <string>

namespace uroce::control {

// Makes FOLDER/NAME if it isn't there. Silent about failure: most users may not write to /dev, and
// most programs don't look. It stays when the daemon ends, since another one may use the same name.
void make_device_node(const std::string& name, const std::string& folder = "/dev/infiniband");

}  // namespace uroce::control
