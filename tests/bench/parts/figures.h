#pragma once

// The output of the benchmarks in virtual time: names and numbers.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace uroce::bench {

class Figures {
 public:
  void note(const std::string& name, double value) { figures_.emplace_back(name, value); }

  // One JSON object, or one line each.
  void print(bool json) const {
    for (std::size_t i = 0; i < figures_.size(); ++i) {
      const auto& [name, value] = figures_[i];
      if (json) {
        std::printf("%s\"%s\": %.4g%s", i == 0 ? "{" : " ", name.c_str(), value,
                    i + 1 < figures_.size() ? ",\n" : "}\n");
      } else {
        std::printf("%-32s %.4g\n", name.c_str(), value);
      }
    }
  }

 private:
  std::vector<std::pair<std::string, double>> figures_;
};

inline bool has_flag(int argc, char** argv, const char* flag) {
  return std::any_of(argv + 1, argv + argc,
                     [flag](const char* argument) { return std::strcmp(argument, flag) == 0; });
}

}  // namespace uroce::bench
