#pragma once

// Feeds the requests of a flow into a fresh queue pair that is set up so that it must give the
// recorded answers: memory where the requests point, holding what the recorded reads found; a
// receive work request wherever the recorded peer had one.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/qp/rig.h"
#include "tests/replay/flow.h"

namespace uroce::test {

// What the recorded peer had that can't be seen in the packets.
struct Circumstances {
  std::vector<std::size_t> lost{};  // requests (frame numbers) that never reached the responder
  std::uint32_t receive_length = 65536;  // bytes of each receive work request
  std::uint32_t region_cut = 0;  // bytes that each region is shorter than what is asked of it
  std::uint32_t region_access =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  bool regions = true;          // false: no rkey is good
  bool memory_changes = false;  // the program wrote to its memory between two requests
};

class Replayer {
 public:
  Replayer(const Flow& flow, Circumstances circumstances);

  // All that it answered.
  std::vector<SentPacket> play();

 private:
  struct Memory {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint32_t key = 0;
    Bytes bytes;
  };
  void find_regions();
  void fill_from_answers();
  void fill_from_answer(std::size_t request);
  void fill_from_read(std::size_t request);
  void fill_from_atomic(std::size_t request);
  void make_queue_pair();
  void supply_receive(std::size_t request);
  [[nodiscard]] bool draws_rnr_nak(std::size_t request) const;
  void deliver(const Record& record);

  const Flow& flow_;
  Circumstances circumstances_;
  std::map<std::uint32_t, Memory> memories_;  // by recorded rkey
  Bytes receive_buffer_;
  std::uint32_t receive_key_ = 0;
  std::unique_ptr<QpRig> rig_;
};

}  // namespace uroce::test
