#pragma once

// The status report: what `uroce status` shows, as JSON.

#include <string>

#include "control/cm_user/service.h"
#include "control/sessions/card.h"

namespace uroce::control {

std::string status_text(Card& card, const cm_user::Service& connections);

}  // namespace uroce::control
