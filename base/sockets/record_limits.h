#pragma once

// How large a record between daemon and program can be (record_socket.h carries them).

#include <cstdint>

namespace uroce {

inline constexpr std::uint32_t kDescriptorsMax = 64;  // in one record
inline constexpr std::uint32_t kRecordMax = 32'768;   // bytes of any record

}  // namespace uroce
