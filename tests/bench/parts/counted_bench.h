#pragma once

// A fixed number of 8-byte WRITEs in virtual time, for counting instructions: every run is the
// same, so the difference of two runs is the cost of the additional messages.

#include <cstdint>
#include <string_view>

namespace uroce::bench {

// Posts `messages` RC WRITEs of 8 bytes, `in_flight` of them at a time, and polls their
// completions. `way`: "frames" between two workers over a link in memory, "direct" within one,
// "spread" as direct, over as many pairs of queue pairs, one message on each. False if there is no
// such way.
bool write_counted(std::string_view way, std::uint32_t messages, std::uint32_t in_flight);

// Instructions per message, counted by callgrind; 0: it can't be run here.
double instructions_per_write(std::string_view way, std::uint32_t in_flight);

}  // namespace uroce::bench
