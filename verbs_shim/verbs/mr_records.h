#pragma once

// A registration as records for the daemon: arenas are handed over before the first region that
// lies in them, and what is in many pieces is described in a file.

#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Sees to it that the daemon has every arena that the pieces name, and puts its handles into the
// pieces. 0 or an errno value.
int share_arenas(Context& context, MemoryDescription& description);

// Sends the pieces with `head` and waits for the reply. 0 or an errno value.
int send_registration(Client& client, const abi::RegMrRequest& head,
                      const MemoryDescription& description, abi::RegMrReply& reply);

}  // namespace uroce::shim
