#pragma once

// QP1, the general services interface (GSI) of each device: sends and receives management datagrams
// (MADs). Used by the connection manager; programs can't have a queue pair of this type.
//
// Workers pass MADs for QP1 here once ICRC, address, P_Key, Q_Key and length are validated
// (engine/management.cc). Everything here belongs to the control thread. There is no queue pair and
// no retransmission: the CM protocol resends lost MADs.

#include <cstdint>
#include <span>

#include "control/ip/device.h"
#include "dataplane/engine/engine.h"
#include "dataplane/wire/headers.h"
#include "dataplane/wire/path.h"

namespace uroce::control {

using MadBytes = std::span<const std::byte, kMadLength>;

struct ReceivedMad {
  Path reply_path;               // to the sender: pass it to Gsi::send() to reply
  std::uint32_t source_qpn = 0;  // where replies go; 1 for connection managers
  MadBytes bytes;                // valid during MadSink's call only
};

// Receives incoming MADs. Control thread.
class MadSink {
 public:
  virtual ~MadSink() = default;
  virtual void on_mad(Device& device, const ReceivedMad& mad) = 0;
};

struct GsiCounters {
  std::uint64_t sent = 0, send_refused = 0, received = 0, unclaimed = 0;
};

class Gsi {
 public:
  explicit Gsi(Engine& engine) : engine_(engine) {}

  // nullptr: MADs are counted as unclaimed. The sink outlives the Gsi or is reset to nullptr before
  // it goes.
  void set_sink(MadSink* sink) { sink_ = sink; }

  // Sends a MAD from QP1 of the device to queue pair `qpn` at the path's end. The path comes from
  // make_path() (path_resolution.h) or from a received MAD. False if the port's transmit queue is
  // full: treated as lost on the wire, so the sender's timer resends it.
  bool send(const Device& device, const Path& path, std::uint32_t qpn, MadBytes bytes);

  // A frame for QP1 that a worker has validated.
  void on_frame(Device& device, std::span<const std::byte> bytes);

  [[nodiscard]] const GsiCounters& counters() const { return counters_; }

 private:
  Engine& engine_;
  MadSink* sink_ = nullptr;
  GsiCounters counters_;
  std::uint32_t next_psn_ = 0;
  std::uint16_t ip_id_ = 0;
};

}  // namespace uroce::control
