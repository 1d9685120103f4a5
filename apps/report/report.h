#pragma once

// `uroce report`.

#include <string>

namespace uroce {

struct ReportOptions {
  std::string html;  // a file; "-" is standard output; empty: no page
  bool json = false;
};

// `library`: as run_doctor() takes it. The exit status: 1 if the page can't be written.
int run_report(const std::string& library, const ReportOptions& options);

}  // namespace uroce
