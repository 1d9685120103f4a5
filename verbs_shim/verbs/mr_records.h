#pragma once

// Sends registrations to the daemon: arenas are passed before the first region in them, and long
// lists of pieces are passed in a file.

#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Passes to the daemon every arena that the pieces name and it doesn't have, and puts its handles
// into the pieces. 0 or an errno value.
int share_arenas(Context& context, MemoryDescription& description);

// Sends the pieces with `head` and waits for the reply. 0 or an errno value.
int send_registration(Client& client, const abi::RegMrRequest& head,
                      const MemoryDescription& description, abi::RegMrReply& reply);

}  // namespace uroce::shim
