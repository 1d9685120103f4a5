#pragma once

// What the shim's play of librdmacm's character device says to the daemon. Commands of
// abi/command_records.h that need no open device; their session is the program's with the
// connection manager, and its end destroys every id.

#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

// kCmOpenChannel, a bare header: HandleReply with one descriptor, the read end of a socket that is
// readable exactly while events wait in the channel: a byte is put in for each, up to a bound.
// kCmCloseChannel, a HandleRequest: destroys the channel's ids.

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
static_assert(sizeof(CmCommandRequest) == 48);
// `leaving` and `leaving_other`: so many bytes the program takes out of the socket of the channel,
// and of `other_channel`, by a read for each, because their events have left it.
struct CmCommandReply {
  ReplyHeader header;
  std::uint32_t leaving, leaving_other;
  // GET_EVENT: handle + 1 of the id that the event counts for (of a connect request's the one that
  // listens), and of the membership; 0: none. They answer DESTROY_ID and LEAVE_MCAST when the
  // daemon can't any more.
  std::uint32_t event_id, event_membership;
  std::uint32_t output_length, reserved;
  std::uint8_t output[kCmOutputMax];
};
static_assert(sizeof(CmCommandReply) == 808);

}  // namespace uroce::abi
