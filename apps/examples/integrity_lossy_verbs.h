#pragma once

// The verbs objects of one side of the lossy mode: queue pairs of type UC or UD with receive
// buffers, a region that UC's WRITEs go to, and one completion queue for all.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/examples/integrity_verbs.h"

namespace integrity {

inline constexpr std::uint32_t kLossyMessages = 256;  // of a queue pair in a round
inline constexpr std::uint32_t kLossySends = 32;      // in its send queue at a time
inline constexpr std::uint32_t kGrhBytes = 40;        // in front of a datagram
inline constexpr std::uint32_t kLossyQkey = 0x0123'4567;

// What names a message must fit in.
inline constexpr std::uint32_t kLossySizeMin = 16;

struct LossyLimits {
  bool datagrams = false;  // UD, else UC
  std::uint32_t queue_pairs = 4;
  std::uint32_t size_max = 10'000;  // bytes of a message; of a datagram at most the MTU
};

struct LossyEndpoint {
  ibv_qp* qp = nullptr;
  ibv_ah* peer = nullptr;  // UD
  std::unique_ptr<Arena> source, receives, region;
  Address mine{}, theirs{};
};

class LossyCard {
 public:
  LossyCard(const std::string& device, int gid_index, const LossyLimits& limits);
  ~LossyCard();
  LossyCard(const LossyCard&) = delete;
  LossyCard& operator=(const LossyCard&) = delete;

  [[nodiscard]] LossyEndpoint& endpoint(std::uint32_t qp) { return endpoints_[qp]; }
  // RESET to RTS, to the peer in endpoint().theirs.
  void connect(std::uint32_t qp);
  // As the device carries them.
  [[nodiscard]] const LossyLimits& limits() const { return limits_; }
  // Bytes from one message's buffer to the next.
  [[nodiscard]] std::uint32_t stride() const { return (limits_.size_max + kGrhBytes + 63) & ~63U; }

  ibv_cq* cq = nullptr;

 private:
  void make_queue_pair(std::uint32_t qp);
  ibv_ah_attr route_to(const Address& peer) const;

  LossyLimits limits_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  int gid_index_;
  ibv_gid gid_{};
  ibv_mtu mtu_ = IBV_MTU_1024;
  std::vector<LossyEndpoint> endpoints_;
};

}  // namespace integrity
