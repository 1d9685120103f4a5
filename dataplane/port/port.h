#pragma once

// A port sends and receives bursts of frames. Virtual calls are a burst, never a packet.
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

inline constexpr std::uint32_t kBurstMax = 64;  // frames of one burst
// Frames that a turn takes from a port, and that queue pairs build for it in a turn: few, so that
// they are still in the processor's caches.
inline constexpr std::uint32_t kTurnBurst = 32;

// And bursts of a turn, where there is more and a port asks for them.
inline constexpr std::uint32_t kTurnBurstsMax = 4;

// What ports say whose frames go from memory to memory: programs choose transports by it.
inline constexpr std::uint32_t kMemorySpeedMbps = 100'000;

// Bytes of a frame beyond the IP packet: Ethernet header and one VLAN tag.
inline constexpr std::uint32_t kEthernetOverhead = 18;

struct PortInfo {
  std::string name;  // as the user gave it: "loopback", a PCI address, a vdev string
  EtherAddress mac;
  std::uint32_t mtu = 1500;  // bytes of an IP packet that the port carries
  std::uint16_t queues = 1;  // receive and transmit queues; queue q is used by worker q only
  bool link_up = true;
  // Why the link is down, where the port knows: a sentence without its end.
  std::string trouble{};
  // The link is an interface of the kernel's, which tells of its changes (rtnetlink).
  bool on_interface = false;
  std::uint32_t speed_mbps = 0;  // 0: unknown; kMemorySpeedMbps where frames go through memory
  bool any_mac = false;          // frames for other stations are to be received, too
  bool wants_frames = false;     // whatever is sent must pass through it
  bool loops_back = false;       // what is sent comes back: frames to its own address need no help
  // The machine's kernel finds stations and routes to them: Ethernet addresses are stand_in_mac()s,
  // and nothing but RoCEv2 to a single station can be sent.
  bool resolves_itself = false;
  // Frames each way in a turn, at most kBurstMax; more where a call of the port costs much.
  std::uint32_t turn_burst = kTurnBurst;
  // Bursts each way in a turn, at most kTurnBurstsMax; more where frames are small: what comes in
  // one turn is acknowledged once, and a look at what has come costs a call, too.
  std::uint32_t turn_bursts = 1;
};

struct PortCounters {
  std::uint64_t rx_frames = 0, rx_bytes = 0, tx_frames = 0, tx_bytes = 0;
  std::uint64_t rx_missed = 0;   // the port dropped: nobody polled in time, or no buffer
  std::uint64_t tx_refused = 0;  // tx_burst took fewer than it was given
  std::uint64_t tx_failed = 0;   // lost: no route, too long for the path, not for this port to send
  std::uint64_t ip_id_solved = 0;  // received through a socket with an identification that isn't 0
};

class Port {
 public:
  virtual ~Port() = default;

  // Up to `max` (<= kBurstMax) received frames; the caller owns them. `now` drives delays of ports
  // that have them.
  virtual std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                 Time now) = 0;

  // Sends frames[0..count). Takes ownership of the first n, and returns n; the rest stay the
  // caller's, who tries again later: a full port pushes back and loses nothing.
  virtual std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                 Time now) = 0;

  // Empty frames of info().mtu + 18 bytes at least; may give fewer than asked. Any worker. A port
  // on whose way nothing can change a byte says that they need no ICRC (Frame::icrc_left_out).
  virtual std::uint32_t allocate(Frame** frames, std::uint32_t count) = 0;
  virtual void release(Frame** frames, std::uint32_t count) = 0;
  // Another number than before: frames that were given until now are of memory that the port would
  // be rid of (a connection that has ended). Whoever has empty ones in stock gives those back, and
  // asks for others. Any thread.
  [[nodiscard]] virtual std::uint32_t generation() const { return 0; }

  // Any thread.
  [[nodiscard]] virtual PortInfo info() const = 0;
  [[nodiscard]] virtual PortCounters counters() const = 0;

  // IP packets of how many bytes the way to a peer carries, as far as the machine knows; 0: there
  // is none. Any thread.
  [[nodiscard]] virtual std::uint32_t mtu_to(const Gid& /*source*/, const Gid& /*peer*/) const {
    return info().mtu;
  }

  // A port that resolves_itself gets or loses an address of the machine's. Control opens it, or
  // says that it closes; then each queue takes that over between two turns of its worker, and only
  // when all have may the next one be opened or closed. Others have no part in addresses.
  virtual Status open_address(const Gid& /*address*/) { return ok(); }
  virtual void close_address(const Gid& /*address*/) {}
  virtual void take_over(std::uint16_t /*queue*/) {}

  // An interface of the kernel's may go and come again below its port. Control detaches the port
  // when its link is down: it gives and takes nothing any more. When each worker has ended a turn
  // since, attach() opens what is there now, or says why not, and may be tried again; then workers
  // look at the port anew. Frames stay good throughout. Other ports have no part in it.
  virtual void detach() {}
  virtual Status attach() { return ok(); }

  // For sleeping workers: a descriptor that becomes readable when a frame has come on this queue,
  // or -1 where the port can't tell: the worker then naps if needs_polling(). arm_wait returns
  // false if frames are already there; disarm after waking.
  [[nodiscard]] virtual int wait_descriptor(std::uint16_t /*queue*/) const { return -1; }
  virtual bool arm_wait(std::uint16_t /*queue*/) { return true; }
  virtual void disarm_wait(std::uint16_t /*queue*/) {}
  // Whether frames may come by themselves (not so where only the worker itself sends).
  [[nodiscard]] virtual bool needs_polling() const { return true; }

  // When a frame held back inside (a delayed one of FaultyPort) becomes due; kNever if none. The
  // queue's worker only.
  [[nodiscard]] virtual Time next_due(std::uint16_t /*queue*/) const { return kNever; }
};

}  // namespace uroce
