#pragma once

// The neighbour cache behind ARP and neighbour discovery: from IP to Ethernet addresses. Sans-I/O:
// time comes in, addresses to ask for go out.
//
// An address is asked for a few times and then held as unreachable for a moment, so every request
// is answered within a bounded time (kAttemptsMax * kAttemptInterval). Used by the control thread
// only.
//
// An answer that is old is still used while the neighbour is asked again, as in Linux: a peer that
// pauses for a few seconds stays reachable. If it doesn't answer for kConfirmingFor, it is
// forgotten, and the next request begins anew.
//
// Any user of the machine can request addresses that don't exist. So at most half of the cache is
// for unanswered addresses, and beyond that a new request evicts nothing: peers that answer stay
// known. Of that half, each asker gets at most half of what the others leave, as with all shared
// resources (shares/). Peers that have answered before, and are asked again from time to time,
// don't count.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "base/user.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

class Neighbours {
 public:
  static constexpr std::uint32_t kAttemptsMax = 5;
  static constexpr Duration kAttemptInterval = 300 * kNanosecondsPerMillisecond;
  static constexpr Duration kKnownFor = 60 * kNanosecondsPerSecond;
  static constexpr Duration kUnreachableFor = 1 * kNanosecondsPerSecond;
  // How often and how long a neighbour is asked to confirm an old answer. Linux waits 5 s and then
  // asks three times in 3 s.
  static constexpr std::uint32_t kConfirmAttemptsMax = 6;
  static constexpr Duration kConfirmInterval = 1 * kNanosecondsPerSecond;
  static constexpr Duration kConfirmingFor = kConfirmAttemptsMax * kConfirmInterval;
  static constexpr std::size_t kEntriesMax = 4096;
  // Addresses that are pending or unreachable.
  static constexpr std::size_t kUnansweredMax = kEntriesMax / 2;

  // Identifies the user that asks, however often its programs connect to the daemon anew. The
  // daemon itself, which answers peers and updates paths, has a share like any user, since peers
  // can be faked, too.
  using Asker = std::optional<User>;
  static constexpr Asker kDaemon = std::nullopt;

  enum class [[nodiscard]] Answer : std::uint8_t{
      kKnown,
      kPending,      // requested; call resolve() again after learn() or due() reported a change
      kUnreachable,  // no reply
      kFull,         // the asker's share of unanswered requests is used up
  };

  // Looks up the Ethernet address of `address`; starts requesting it if it isn't known, or was
  // learned long ago.
  Answer resolve(const LinkAddress& address, Time now, EtherAddress* mac, Asker asker = kDaemon);

  // `address` has been seen to be at `mac`. An address that isn't in the cache is added only if
  // `addressed_to_us` (RFC 826: the packet asks for one of our own). True if this answers a pending
  // request.
  bool learn(const LinkAddress& address, const EtherAddress& mac, Time now, bool addressed_to_us);

  // The addresses to request now. Gives up and removes entries that are due; sets `*settled` if
  // pending resolve() calls must be repeated.
  std::vector<LinkAddress> due(Time now, bool* settled);

  // The hosts on the link may have changed: no answer is used before it is confirmed, and pending
  // requests are restarted.
  void forget_answers(Time now);

  // When due() has something to do.
  [[nodiscard]] Time next_deadline() const;

 private:
  enum class State : std::uint8_t {
    kAsking,
    kKnown,
    kConfirming,  // known long ago: used, and asked again
    kOutdated,    // known before the hosts on the link changed: not used, asked again on request
    kUnreachable,
  };
  struct Entry {
    State state = State::kAsking;
    EtherAddress mac{};
    std::uint32_t attempts = 0;
    Time deadline = 0;      // next attempt, or when it is old or forgotten
    Asker asker = kDaemon;  // the first to request it
  };
  using Entries = std::map<LinkAddress, Entry>;

  [[nodiscard]] static bool is_unanswered(State state) {
    return state == State::kAsking || state == State::kUnreachable;
  }
  // Whether due() has something to do with it once its deadline is over. What is known stays until
  // it is requested.
  [[nodiscard]] static bool has_deadline(State state) {
    return is_unanswered(state) || state == State::kConfirming;
  }
  [[nodiscard]] bool may_ask(Asker asker) const;
  void ask(const LinkAddress& address, Time now, Asker asker);
  Answer start(const LinkAddress& address, Time now, Asker asker);
  void on_answer(Asker asker);
  void on_settled(const Entry& entry);
  Entries::iterator forget(Entries::iterator at);
  void make_room();

  Entries entries_;
  std::size_t confirming_ = 0;
  std::size_t unanswered_ = 0;                  // entries that aren't known
  std::map<Asker, std::size_t> unanswered_of_;  // the same by asker; without zeroes
};

}  // namespace uroce::control
