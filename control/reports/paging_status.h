#pragma once

// The report on on-demand paging: what `uroce odp` shows, as JSON.

#include <string>

#include "control/paging/paging_service.h"
#include "control/sessions/card.h"

namespace uroce::control {

// The reader's rights decide: the addresses of a program's memory are shown only to its user and to
// administrators.
std::string paging_text(const Card& card, const PagingService& paging, const Peer& reader);

}  // namespace uroce::control
