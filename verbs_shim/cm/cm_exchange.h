#pragma once

// A command that librdmacm wrote to its device, and how the daemon executes it.

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "verbs_shim/cm/cm_channels.h"

namespace uroce::shim {

struct CmCommand {
  int descriptor;
  std::uint64_t serial;  // of the channel
  rdma_ucm_cmd_hdr header;
  const std::byte* input;
  // The data that an option's pointer refers to is sent with the command.
  const void* option = nullptr;
  std::size_t option_length = 0;
  int other = -1;  // MIGRATE_ID: the descriptor of the channel that the id comes from

  [[nodiscard]] bool is(std::uint32_t number) const { return header.cmd == number; }
};

template <typename Value>
Value load(const void* bytes) {
  Value value{};
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Writes the command's response to where the program wants it.
void respond(const CmCommand& command, const void* output, std::size_t length);

// Sends the command by this route, receives its response and notes what it says. 0 or an errno
// value. nullopt: the connection is gone, or the command's id is of one that is. REQUIRES:
// cancellation is disabled.
std::optional<int> exchange(const CmCommand& command, const Route& route);

}  // namespace uroce::shim
