#pragma once

// The report on on-demand paging: what `uroce odp` shows, as JSON.

#include <string>

#include "control/paging/paging_service.h"
#include "control/sessions/card.h"

namespace uroce::control {

// For somebody with the reader's rights: where a program's memory lies is its own user's business,
// and administrators'.
std::string paging_text(const Card& card, const PagingService& paging, const Peer& reader);

}  // namespace uroce::control
