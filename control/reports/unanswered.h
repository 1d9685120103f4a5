#pragma once

// What control knows about why a queue pair's peer didn't answer, for its line in the error log.
// Control thread only.

#include <string>

#include "control/reports/path_problems.h"
#include "control/sessions/card.h"
#include "dataplane/qp/failure_report.h"

namespace uroce::control {

// The rest of the sentence of error_text.h for a queue pair that gave up: "; and" what was found.
// Empty for other failures, and if nothing is known.
std::string why_unanswered(Card& card, const PathProblems& problems, const FailureReport& report);

}  // namespace uroce::control
