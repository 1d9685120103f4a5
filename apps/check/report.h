#pragma once

// What `uroce check` prints.

#include <iosfwd>

#include "apps/check/analyser.h"

namespace uroce::check {

void print_report(const Verdict& verdict, std::ostream& out);
// One object.
void print_json(const Verdict& verdict, std::ostream& out);

}  // namespace uroce::check
