#include "apps/doctor/doctor.h"

#include <algorithm>
#include <cstdio>

#include "apps/doctor/findings.h"

namespace uroce {
namespace {

using doctor::Finding;
using doctor::Severity;

void print_findings_json(const std::vector<Finding>& findings, long problems) {
  const nlohmann::ordered_json all = {{"problems", problems}, {"findings", as_json(findings)}};
  std::printf("%s\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

int run_doctor(const std::string& library, bool json) {
  const auto findings = examine(doctor::gather(library));
  const auto problems = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.weight == Severity::kProblem;
  });
  if (json) {
    print_findings_json(findings, problems);
    return problems == 0 ? 0 : 1;
  }
  for (const Finding& finding : findings) {
    std::printf("%-7s  %s: %s\n", std::string(name(finding.weight)).c_str(), finding.about.c_str(),
                finding.sentence.c_str());
  }
  std::printf(problems == 0   ? "no problem found\n"
              : problems == 1 ? "1 problem\n"
                              : "%ld problems\n",
              problems);
  return problems == 0 ? 0 : 1;
}

}  // namespace uroce
