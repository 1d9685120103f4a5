#include "control/reports/program_name.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace uroce::control {

std::string program_name(const Peer& peer) {
  std::ifstream file("/proc/" + std::to_string(peer.pid) + "/comm");
  std::string name;
  std::getline(file, name);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); },
      '?');
  return process_of(peer).check() ? name : "";
}

}  // namespace uroce::control
