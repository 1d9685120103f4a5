#pragma once

// The responder's resources for reads and atomics (IBTA vol. 1, 9.7.5.1): what the peer
// asked, how much of it is answered, and for atomics the saved result, so that a duplicate gets the
// same answer again. A ring of the newest requests in PSN order, max_dest_rd_atomic of them rounded
// up (Responder::resources).

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/wire/opcode.h"
#include "dataplane/wire/psn.h"
#include "mmu/key_table.h"

namespace uroce {

struct Resource {
  std::uint64_t address = 0;
  std::uint64_t original = 0;  // atomics: the value before
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;      // bytes of the whole answer
  std::uint32_t length_end = 0;  // bytes into it where the present answer stops (a partial retry)
  std::uint32_t psn_first = 0;
  std::uint32_t packets = 1;                      // of the whole answer; as many PSNs
  std::uint32_t packet_next = 0;                  // the next to send
  std::uint32_t packet_end = 0;                   // the one after the last to send
  std::uint32_t msn = 0;                          // of the request
  PdId pd = 0;                                    // by which the key is judged
  Operation operation = Operation::kReadRequest;  // what was asked
  bool replay = false;                            // answered once already
  // A part of what was sent already that is asked for again before the rest is sent; none if both
  // are equal.
  std::uint32_t patch_next = 0;
  std::uint32_t patch_end = 0;
  std::uint32_t patch_length_end = 0;  // bytes into the answer where it stops

  [[nodiscard]] bool pending() const { return packet_next < packet_end; }
  [[nodiscard]] bool patching() const { return patch_next < patch_end; }
};

// The packets, and so PSNs, of the answer to a READ of so many bytes.
constexpr std::uint32_t response_packets(std::uint32_t length, std::uint32_t mtu) {
  return std::max(1U, (length + mtu - 1) / mtu);
}

class ResourceRing {
 public:
  // `limit`: how many; 0 refuses every request. Keeps the newest that fit, which the peer
  // may ask for again, and all that aren't answered.
  void resize(std::uint32_t limit);

  // Whether one more request would exceed the limit: the oldest isn't answered yet. (A replay that
  // is still going on doesn't count: its first answer arrived, or the peer wouldn't ask more.)
  [[nodiscard]] bool full() const;

  // REQUIRES: !full()
  void push(const Resource& resource);

  // The newest request whose answer has this PSN, or nullptr.
  Resource* find(std::uint32_t psn);

  // `resource`, from find(), is to be answered again: from `packet` on, up to packet_end, which is
  // where byte length_end of its answer lies.
  void replay(Resource& resource, std::uint32_t packet, std::uint32_t length_end,
              std::uint32_t packet_end);

  // The oldest request with something to send, or nullptr.
  [[nodiscard]] Resource* next_pending();
  [[nodiscard]] bool any_pending() const { return pending_count_ != 0; }

  // `resource` has nothing more to send.
  void answered(Resource& resource);

  // Sends nothing of what is there.
  void clear_pending();

 private:
  // Of a free-running index.
  [[nodiscard]] Resource& slot(std::uint32_t index) { return slots_[index & (slots_.size() - 1)]; }
  [[nodiscard]] const Resource& slot(std::uint32_t index) const {
    return slots_[index & (slots_.size() - 1)];
  }

  std::uint32_t pending_count_ = 0;  // first: as a rule it is all that is looked at
  std::uint32_t limit_ = 0;
  std::vector<Resource> slots_;  // a power of two
  std::uint32_t count_ = 0;
  std::uint32_t head_ = 0;    // free-running: where the next request goes
  std::uint32_t cursor_ = 0;  // nothing before it is pending
};

}  // namespace uroce
