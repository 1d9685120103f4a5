#pragma once

// Detects whether the peer buffers out-of-order packets. The peer isn't asked: it shows by its next
// answer, when only the missing packet has been retransmitted:
//
//   an acknowledgement, or a NAK, far behind it     it buffers
//   an acknowledgement of that packet alone         it has discarded what came behind
//   a NAK of the very next packet                   either that one was lost, too, or it buffers
//                                                   nothing and has received a later one meanwhile
//
// A peer that doesn't buffer is probed again now and then, since a rare reordering can make a
// buffering one look like that; the price is a round trip.

#include <cstdint>

#include "dataplane/wire/psn.h"

namespace uroce {

class PeerBuffering {
 public:
  // The peer has reported `psn` as missing, and has everything before it. Returns whether to
  // retransmit only the packet there, which has `count` PSNs (a READ request: as many as its
  // responses).
  [[nodiscard]] bool resend_single(std::uint32_t psn, std::uint32_t count);

  // Whether a packet was retransmitted alone, so that the next answer shows something.
  [[nodiscard]] bool watches() const { return single_; }

  // The peer has acknowledged everything before `unacked_psn`. What to do about the packet there:
  // nothing special, retransmit it alone, or retransmit everything from it on. `count`: its PSNs;
  // 0: it wasn't sent yet.
  enum class Next : std::uint8_t { kGoOn, kSingle, kAll };
  [[nodiscard]] Next acknowledged(std::uint32_t unacked_psn, std::uint32_t count);

  // A response to what was requested after the packet that was sent again: how the peer came to
  // execute that, isn't known.
  void answered(std::uint32_t unacked_psn) {
    single_ = single_ && psn_difference(unacked_psn, single_end_) <= 0;
  }

  // Another uroce has sent a SACK, which shows whether it has buffered anything.
  void set_reported(bool buffers);

  // Everything is retransmitted: the next acknowledgement shows nothing.
  void gone_back() { single_ = false; }

 private:
  enum class Buffers : std::uint8_t { kUnknown, kYes, kNo };
  // How often in a row a peer may advance by a single packet: one that is known to buffer, and one
  // of which nothing is known.
  static constexpr std::uint32_t kRowMax = 4;
  static constexpr std::uint32_t kRowMaxReported = 64;  // and one that has sent SACKs
  static constexpr std::uint32_t kDoubtsMax = 2;
  static constexpr std::uint32_t kTryEvery = 64;  // losses with a peer that buffers nothing

  bool single(std::uint32_t psn, std::uint32_t count);
  bool advanced_by_one(std::uint32_t psn, std::uint32_t count, bool certain);
  void advanced_further();

  Buffers buffers_ = Buffers::kUnknown;
  bool reported_ = false;
  // The packet before single_end_ was sent again alone, and nothing from behind it was answered
  // since.
  bool single_ = false;
  std::uint32_t single_end_ = 0;
  std::uint32_t row_ = 0;
  std::uint32_t missing_ = 0;  // losses since it was found to buffer nothing
};

}  // namespace uroce
