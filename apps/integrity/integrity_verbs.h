#pragma once

// The verbs objects of one side: a device, and queue pairs with four registered arenas each. Plain
// libibverbs, as any program would use it.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/integrity/integrity_memory.h"
#include "apps/integrity/integrity_plan.h"

namespace integrity {

inline constexpr std::uint32_t kSendDepth = 32;

// Of which program this is a part. Set, if at all, before anything else.
struct Program {
  const char* name = "integrity";
  const char* how_to_need_less = "; a smaller --size-max or --qps needs less";
};
inline Program program;

// Says what failed, with errno, and ends the process: an example needs no recovery.
[[noreturn]] void die(const char* what);

// The device with this name, or the first one if it is empty. Ends the process if there is none.
ibv_context* open_device(const std::string& name);

// A registered buffer that begins at an odd address.
class Arena {
 public:
  // `all_memory`: the region that stands for it, or nullptr: it gets one of its own.
  Arena(ibv_pd* pd, std::uint32_t size, int access, std::uint32_t skew, Odp odp = Odp::kNo,
        bool in_file = false, ibv_mr* all_memory = nullptr);
  [[nodiscard]] std::uint8_t* data() { return memory_.data() + skew_; }
  [[nodiscard]] ibv_mr* mr() { return mr_ != nullptr ? mr_.get() : all_memory_; }
  [[nodiscard]] Memory& memory() { return memory_; }
  // Before it is filled anew, while no peer touches it: throws all bytes away, where it can.
  void forget();
  ibv_sge sge(const Piece& piece, ibv_mr* key);

 private:
  struct Deregister {
    void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
  };
  Memory memory_;
  std::uint32_t skew_;
  ibv_mr* all_memory_;
  std::unique_ptr<ibv_mr, Deregister> mr_;
};

// What the peer must know of a queue pair.
struct Address {
  ibv_gid gid;
  std::uint64_t region;
  std::uint32_t rkey, qpn, psn, mtu;
};

struct Endpoint {
  ibv_qp* qp = nullptr;
  std::unique_ptr<Arena> source, sink, receive, region;
  ibv_mr* second_key = nullptr;  // of the source: one message may be gathered by two keys
  Address mine{}, theirs{};
  ibv_mw* window = nullptr;  // of all of our region, with Limits::windows
};

// 4.096 us << 13: 34 ms; seven of them outlast a busy machine.
inline constexpr std::uint8_t kTimeoutDefault = 13;

class Card {
 public:
  // Opens the device (the first one if the name is empty) and makes the queue pairs. Even ones
  // complete into `polled`; odd ones into the two queues behind `channel`.
  Card(const std::string& device, int gid_index, const Limits& limits, Odp odp,
       std::uint8_t timeout_code = kTimeoutDefault);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  [[nodiscard]] Endpoint& endpoint(std::uint32_t qp) { return endpoints_[qp]; }
  // RESET to RTS, to the peer in endpoint().theirs.
  void connect(std::uint32_t qp);

  // All that may be changed under the traffic; empty without on-demand paging.
  [[nodiscard]] std::vector<Memory*> memories();

  // The most inline bytes that a queue pair of this device took, up to `wanted`.
  [[nodiscard]] std::uint32_t inline_max() const { return inline_max_; }

  ibv_comp_channel* channel = nullptr;
  ibv_cq* polled = nullptr;
  ibv_cq* event_send = nullptr;
  ibv_cq* event_receive = nullptr;

 private:
  void make_queue_pair(std::uint32_t qp, const Limits& limits);

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  Odp odp_;
  ibv_mr* all_memory_ = nullptr;  // Odp::kImplicit
  int gid_index_;
  std::uint8_t timeout_code_;  // of acknowledgements: 4.096 us * 2^n
  ibv_gid gid_{};
  ibv_mtu mtu_max_ = IBV_MTU_1024;
  std::uint32_t inline_max_ = 0;
  std::vector<Endpoint> endpoints_;
};

}  // namespace integrity
