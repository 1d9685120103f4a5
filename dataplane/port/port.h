#pragma once

// A port sends and receives bursts of frames. Virtual calls are per burst, never per packet.
//
// Implementations: EthdevPort (any rte_ethdev), UdpPort (the kernel's UDP sockets), ShmPort (memory
// between two daemons), LoopbackPort (what is sent comes back), LinkPort (two ports joined in
// memory, for tests and simulation), FaultyPort (wraps one of them and loses, repeats, reorders,
// corrupts).

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "dataplane/wire/address.h"
#include "dataplane/wire/frame.h"

namespace uroce {

inline constexpr std::uint32_t kBurstMax = 64;  // frames per burst
// Frames per turn that a worker receives from a port, and that queue pairs build for it: few, so
// that they are still in the processor's caches.
inline constexpr std::uint32_t kTurnBurst = 32;

// Bursts per turn, if there are more frames and a port asks for it.
inline constexpr std::uint32_t kTurnBurstsMax = 4;

// The speed reported by ports whose frames go from memory to memory; programs choose transports by
// it.
inline constexpr std::uint32_t kMemorySpeedMbps = 100'000;

// Bytes of a frame beyond the IP packet: Ethernet header and one VLAN tag.
inline constexpr std::uint32_t kEthernetOverhead = 18;

struct PortInfo {
  std::string name;  // as configured: "loopback", a PCI address, a vdev string
  EtherAddress mac;
  std::uint32_t mtu = 1500;  // bytes of an IP packet that the port carries
  std::uint16_t queues = 1;  // receive and transmit queues; queue q is used by worker q only
  bool link_up = true;
  // Why the link is down, if known: a sentence without its full stop.
  std::string trouble{};
  // The link is a kernel interface, whose changes rtnetlink reports.
  bool on_interface = false;
  std::uint32_t speed_mbps = 0;  // 0: unknown; kMemorySpeedMbps where frames go through memory
  bool any_mac = false;          // frames for other Ethernet addresses are received, too
  bool wants_frames = false;     // everything sent must pass through it as frames
  bool loops_back = false;       // what is sent comes back, also to its own address
  // The kernel resolves addresses and routes: Ethernet addresses are stand_in_mac()s, and only
  // RoCEv2 to unicast addresses can be sent.
  bool resolves_itself = false;
  // Frames each way in a turn, at most kBurstMax; more where a call of the port costs much.
  std::uint32_t turn_burst = kTurnBurst;
  // Bursts each way in a turn, at most kTurnBurstsMax; more where frames are small: packets
  // received in one turn are acknowledged once, and each poll costs a call.
  std::uint32_t turn_bursts = 1;
};

struct PortCounters {
  std::uint64_t rx_frames = 0, rx_bytes = 0, tx_frames = 0, tx_bytes = 0;
  std::uint64_t rx_missed = 0;   // dropped by the port: not polled in time, or no buffer
  std::uint64_t tx_refused = 0;  // not accepted by tx_burst
  std::uint64_t tx_failed = 0;   // lost: no route, too long for the path, not for this port to send
  std::uint64_t ip_id_solved = 0;  // received through a socket with a non-zero IPv4 identification
};

class Port {
 public:
  virtual ~Port() = default;

  // Receives up to `max` (<= kBurstMax) frames, which the caller then owns. `now` is used by ports
  // with delays.
  virtual std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                 Time now) = 0;

  // Sends frames[0..count). Takes ownership of the first n, and returns n; the caller keeps the
  // rest and retries later: a full port drops nothing.
  virtual std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                 Time now) = 0;

  // Empty frames of at least info().mtu + 18 bytes; may return fewer than requested. Any worker. A
  // port on whose path no byte can change marks them as needing no ICRC (Frame::icrc_left_out).
  virtual std::uint32_t allocate(Frame** frames, std::uint32_t count) = 0;
  virtual void release(Frame** frames, std::uint32_t count) = 0;
  // When this number changes, the port wants to free the memory of earlier frames (a connection
  // that has ended): holders of empty frames return them and allocate others. Any thread.
  [[nodiscard]] virtual std::uint32_t generation() const { return 0; }

  // Any thread.
  [[nodiscard]] virtual PortInfo info() const = 0;
  [[nodiscard]] virtual PortCounters counters() const = 0;

  // The known path MTU to a peer in bytes of IP packets; 0: no route. Any thread.
  [[nodiscard]] virtual std::uint32_t mtu_to(const Gid& /*source*/, const Gid& /*peer*/) const {
    return info().mtu;
  }

  // For ports that resolve addresses themselves: an address of the machine was added or removed.
  // Control opens it, or announces its closing; then each queue applies the change between two
  // turns of its worker, and the next address may be opened or closed only after all have. Other
  // ports ignore this.
  virtual Status open_address(const Gid& /*address*/) { return ok(); }
  virtual void close_address(const Gid& /*address*/) {}
  virtual void take_over(std::uint16_t /*queue*/) {}

  // The kernel interface below a port may disappear and come back. Control detaches the port when
  // its link is down: from then on it neither receives nor sends. When each worker has ended a turn
  // since, attach() opens the interface that exists now, or fails and may be retried; then workers
  // reread the port's info. Frames stay valid throughout. Other ports ignore this. Both return
  // whether workers have to be told: the port was attached before detach(), or wasn't before
  // attach().
  virtual bool detach() { return false; }
  virtual Result<bool> attach() { return false; }

  // For sleeping workers: a descriptor that becomes readable when a frame has been received on this
  // queue, or -1 if the port has none: the worker then polls at intervals if needs_polling().
  // arm_wait() returns false if frames are there already; disarm after waking.
  [[nodiscard]] virtual int wait_descriptor(std::uint16_t /*queue*/) const { return -1; }
  virtual bool arm_wait(std::uint16_t /*queue*/) { return true; }
  virtual void disarm_wait(std::uint16_t /*queue*/) {}
  // A card may hold back its interrupts, or have none that work: until the queue's worker has been
  // idle for that long, it polls at intervals beside the descriptor. kNever: always.
  [[nodiscard]] virtual Duration signal_delay_max(std::uint16_t /*queue*/) const { return 0; }
  // Whether frames can arrive that the worker itself didn't send.
  [[nodiscard]] virtual bool needs_polling() const { return true; }

  // When a delayed frame (FaultyPort) becomes due; kNever if none. The queue's worker only.
  [[nodiscard]] virtual Time next_due(std::uint16_t /*queue*/) const { return kNever; }
};

}  // namespace uroce
