#include "control/reports/program_name.h"

#include <fstream>

namespace uroce::control {

std::string program_name(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace uroce::control
