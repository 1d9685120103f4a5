#pragma once

// The verbs objects of one side when messages name themselves: queue pairs with a region that
// WRITEs go to, receive buffers of their own or in shared queues, and one completion queue for all.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/integrity/integrity_verbs.h"

namespace integrity {

inline constexpr std::uint32_t kRoundMessages = 256;  // of a queue pair in a round
inline constexpr std::uint32_t kSendsMax = 32;        // in its send queue at a time
inline constexpr std::uint32_t kGrhBytes = 40;        // in front of a datagram
inline constexpr std::uint32_t kQkey = 0x0123'4567;

// What names a message must fit in.
inline constexpr std::uint32_t kMessageSizeMin = 16;

enum class Service : std::uint32_t {
  kUc,
  kUd,
  kRcSrq,  // RC, all queue pairs with one shared receive queue
  kXrc,    // as many shared receive queues as queue pairs, and each message says which one
};

struct MessageLimits {
  Service service = Service::kUc;
  std::uint32_t queue_pairs = 4;
  std::uint32_t size_max = 10'000;              // bytes of a message; of a datagram at most the MTU
  std::uint8_t timeout_code = kTimeoutDefault;  // of acknowledgements: 4.096 us * 2^n

  [[nodiscard]] bool datagrams() const { return service == Service::kUd; }
  [[nodiscard]] bool xrc() const { return service == Service::kXrc; }
  // Nothing may get lost.
  [[nodiscard]] bool reliable() const { return service == Service::kRcSrq || xrc(); }
  // Shared receive queues are kept shorter than a round, so that senders are told to wait.
  [[nodiscard]] std::uint32_t receives() const {
    return reliable() ? kRoundMessages / 4 : kRoundMessages;
  }
};

// What the peer must know besides.
struct MessageAddress : Address {
  std::uint32_t receiving_qpn, srqn;  // qpn but for XRC; XRC
};

struct MessageEndpoint {
  ibv_qp* qp = nullptr;
  ibv_qp* receiving_qp = nullptr;  // XRC
  ibv_srq* srq = nullptr;          // its own, or the one that all share
  ibv_ah* peer = nullptr;          // UD
  std::unique_ptr<Arena> source, receives, region;
  MessageAddress mine{}, theirs{};
};

class MessageCard {
 public:
  MessageCard(const std::string& device, int gid_index, const MessageLimits& limits);
  ~MessageCard();
  MessageCard(const MessageCard&) = delete;
  MessageCard& operator=(const MessageCard&) = delete;

  [[nodiscard]] MessageEndpoint& endpoint(std::uint32_t qp) { return endpoints_[qp]; }
  // RESET to RTS, to the peer in endpoint().theirs.
  void connect(std::uint32_t qp);
  // Posts one of the receive buffers of an endpoint.
  void post_receive(std::uint32_t owner, std::uint32_t slot, std::uint64_t work_id);
  // As the device carries them.
  [[nodiscard]] const MessageLimits& limits() const { return limits_; }
  // Bytes from one message's buffer to the next.
  [[nodiscard]] std::uint32_t stride() const { return (limits_.size_max + kGrhBytes + 63) & ~63U; }

  ibv_cq* cq = nullptr;

 private:
  [[nodiscard]] ibv_srq* make_srq(std::uint32_t entries);
  void make_queue_pair(std::uint32_t qp);
  [[nodiscard]] ibv_qp* create(ibv_qp_type type, ibv_srq* srq);
  void connect(const MessageEndpoint& endpoint, ibv_qp* qp, std::uint32_t peer_qpn);
  ibv_ah_attr route_to(const Address& peer) const;

  MessageLimits limits_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_xrcd* domain_ = nullptr;  // XRC
  ibv_srq* shared_ = nullptr;   // the one of all, with kRcSrq
  int gid_index_;
  ibv_gid gid_{};
  ibv_mtu mtu_ = IBV_MTU_1024;
  std::vector<MessageEndpoint> endpoints_;
};

}  // namespace integrity
