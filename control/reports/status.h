#pragma once

// The status report: what `uroce status` shows, as JSON.

#include <string>

#include "control/sessions/card.h"

namespace uroce::control {

std::string status_text(Card& card);

}  // namespace uroce::control
