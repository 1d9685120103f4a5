#pragma once

// What the shim's play of librdmacm's character device says to the daemon. Commands of
// abi/command_records.h that need no open device; their session is the program's with the
// connection manager, and its end destroys every id.

#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

// kCmOpenChannel, a bare header: HandleReply with one descriptor, the read end of a socket that
// holds one byte exactly while events wait in the channel. kCmCloseChannel, a HandleRequest:
// destroys the channel's ids.

// kCmCommand: one command as librdmacm writes it to its device, raw: `number` and the input of
// rdma/rdma_user_cm.h, then the bytes of an option for SET_OPTION (the pointers in the input mean
// nothing here). GET_EVENT has no output when no event waits. MIGRATE_ID names in
// `other_channel` the channel that the id comes from.
inline constexpr std::uint32_t kCmInputMax = 512;
inline constexpr std::uint32_t kCmOptionMax = 512;
inline constexpr std::uint32_t kCmOutputMax = 512;
struct CmCommandRequest {
  RequestHeader header;
  std::uint32_t channel, number, input_length, option_length, other_channel, reserved;
  std::uint8_t bytes[];  // input, option
};
// The last event left the channel: the program takes the byte out of it, so that the socket is
// readable exactly while events wait. Events that come meanwhile put in another.
enum CmDrained : std::uint32_t { kCmDrainedChannel = 1U, kCmDrainedOther = 2U };
struct CmCommandReply {
  ReplyHeader header;
  std::uint32_t drained;  // of CmDrained
  std::uint32_t output_length;
  std::uint8_t output[kCmOutputMax];
};

}  // namespace uroce::abi
