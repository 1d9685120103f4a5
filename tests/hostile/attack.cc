// attack NAME [ARGUMENT...]: one attack on the daemon whose socket UROCE_SOCKET names, as an
// ordinary user could make it. tests/hostile starts it.

#include <array>
#include <cstdio>
#include <string_view>

#include "tests/hostile/attack.h"

namespace {

using uroce::hostile::Arguments;

struct Attack {
  std::string_view name;
  int (*run)(Arguments);
};

constexpr std::array kAttacks{
    Attack{"arp", uroce::hostile::flood_with_arp},
    Attack{"requests", uroce::hostile::flood_with_requests},
    Attack{"holder", uroce::hostile::hold_number},
    Attack{"number", uroce::hostile::attack_by_number},
    Attack{"records", uroce::hostile::attack_with_records},
    Attack{"shares", uroce::hostile::attack_shares},
    Attack{"status", uroce::hostile::attack_status},
    Attack{"waits", uroce::hostile::attack_by_waiting},
    Attack{"queues", uroce::hostile::attack_with_queues},
    Attack{"channels", uroce::hostile::attack_with_channels},
    Attack{"memory", uroce::hostile::attack_with_memory},
    Attack{"busy", uroce::hostile::attack_with_queue_pairs},
    Attack{"punch", uroce::hostile::attack_with_holes},
    Attack{"resize", uroce::hostile::attack_by_resizing},
    Attack{"page", uroce::hostile::attack_page},
    Attack{"pieces", uroce::hostile::attack_with_pieces},
    Attack{"closings", uroce::hostile::attack_by_closing},
    Attack{"paging", uroce::hostile::attack_by_paging},
    Attack{"unread", uroce::hostile::attack_unread},
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments words(argv, static_cast<std::size_t>(argc));
  for (const Attack& attack : kAttacks) {
    if (words.size() > 1 && attack.name == words[1]) {
      return attack.run(words.subspan(2));
    }
  }
  std::fprintf(stderr, "usage: attack NAME [ARGUMENT...]; names:");
  for (const Attack& attack : kAttacks) {
    std::fprintf(stderr, " %s", attack.name.data());
  }
  std::fprintf(stderr, "\n");
  return 2;
}
