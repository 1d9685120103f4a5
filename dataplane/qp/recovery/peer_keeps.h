#pragma once

// Whether the peer keeps packets that come ahead of one that it misses. Nobody asks it: it shows,
// when only the missing packet is sent again, by what it says next.
//
//   an acknowledgement, or a NAK, far behind it     it keeps
//   an acknowledgement of that packet alone         it has thrown away what came behind
//   a NAK of the very next packet                   either that one was lost, too, or it keeps
//                                                   nothing and has seen a later one meanwhile
//
// A peer that keeps nothing is tried again now and then, since a rare reordering could have made a
// keeping one look like that; the price is a round trip.

#include <cstdint>

#include "dataplane/wire/psn.h"

namespace uroce {

class PeerKeeps {
 public:
  // The peer names `psn` as missing, and has all before it. Whether to send only that one again.
  [[nodiscard]] bool resend_single(std::uint32_t psn);

  // The peer has acknowledged everything before `unacked_psn`; `more` was sent. What to do about
  // that packet: nothing special, send it again alone, or everything from it on.
  enum class Next : std::uint8_t { kGoOn, kSingle, kAll };
  [[nodiscard]] Next acknowledged(std::uint32_t unacked_psn, bool more);

  // A uroce has reported what it keeps, or that it keeps nothing.
  void told(bool keeps);

  // Everything is sent again: what is acknowledged next shows nothing.
  void gone_back() { single_ = false; }

 private:
  enum class Belief : std::uint8_t { kUnknown, kYes, kNo };
  // How often in a row a peer may go on by a single packet: one that has shown that it keeps, and
  // one of which nothing is known.
  static constexpr std::uint32_t kRowMax = 4;
  static constexpr std::uint32_t kRowMaxTold = 64;  // and one that has said that it keeps
  static constexpr std::uint32_t kDoubtsMax = 2;
  static constexpr std::uint32_t kTryEvery = 64;  // losses with a peer that keeps nothing

  bool single(std::uint32_t psn);
  bool went_on_by_one(std::uint32_t psn, bool certain);
  void jumped();

  Belief belief_ = Belief::kUnknown;
  bool told_ = false;
  bool single_ = false;  // single_psn_ was sent again alone, and nothing was heard since
  std::uint32_t single_psn_ = 0;
  std::uint32_t row_ = 0;
  std::uint32_t missing_ = 0;  // losses since it was judged to keep nothing
};

}  // namespace uroce
