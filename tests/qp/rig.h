#pragma once

// One queue pair on a test bench: its rings, memory and key table in the test's own heap, the
// peer's packets built from headers, and the sent packets parsed. Nothing happens by itself: the
// test receives, transmits and polls.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/replay/rings.h"
#include "dataplane/qp/failure_report.h"
#include "dataplane/qp/qp.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"

namespace uroce::test {

using Bytes = std::vector<std::byte>;

// Frames in plain memory for a TxBatch.
class BatchFrames {
 public:
  explicit BatchFrames(std::uint32_t count, std::uint32_t capacity = 4608);
  void fill(TxBatch& batch);
  // Takes back the frames that the queue pair has sent.
  void take_back(TxBatch& batch);

 private:
  std::unique_ptr<std::byte[]> buffers_;
  std::vector<Frame> frames_;
  std::vector<Frame*> free_;
};

struct EventLog : EventSink {
  struct Entry {
    AsyncEvent event;
    std::uint32_t object;
    bool operator==(const Entry&) const = default;
  };
  void announce(AsyncEvent event, std::uint32_t object) override {
    entries.push_back({event, object});
  }
  void report(const FailureReport& report) override { reports.push_back(report); }
  std::vector<Entry> entries;
  std::vector<FailureReport> reports;
};

// A packet that the queue pair sent, parsed. `packet` points into `bytes`.
struct SentPacket {
  Bytes bytes;
  Frame frame;
  [[nodiscard]] const Packet& packet() const { return frame.packet; }
  [[nodiscard]] std::span<const std::byte> payload() const {
    return {frame.packet.payload, frame.packet.payload_length};
  }
};

class QpRig {
 public:
  static constexpr std::uint32_t kQpn = 0x11;
  static constexpr std::uint32_t kPeerQpn = 0x22;
  static constexpr PdId kPd = 1;
  static constexpr std::uint32_t kSrqn = 0x33;  // XRC receive: `receives` is its ring

  struct Options {
    QpType type = QpType::kRc;
    QpAttributes attributes = default_attributes();
    const AddressTable* addresses = nullptr;  // UD
    std::uint32_t receive_entries = 64;
    std::uint32_t send_entries = 64;
    std::uint32_t cq_entries = 256;
    std::uint32_t sge_max = 8;
    std::uint32_t inline_max = 256;
    bool shared_receive_queue = false;
    QpState state = QpState::kRts;  // reached before the first packet
  };
  // MTU 1024, PSNs 100 (to it) and 5000 (from it), everything allowed, 4 reads each way.
  static QpAttributes default_attributes();

  QpRig();
  explicit QpRig(const Options& options);
  QpRig(const QpRig&) = delete;
  QpRig& operator=(const QpRig&) = delete;

  [[nodiscard]] Qp& qp() { return *qp_; }

  // Registers memory of the test under an address of the test's choice. Returns the key.
  std::uint32_t add_region(std::span<std::byte> memory, std::uint64_t iova, std::uint32_t access,
                           PdId pd = kPd);
  void remove_region(std::uint32_t key);

  // A packet from the peer, or from another address. `headers` needs no dest_qpn.
  Step receive(Headers headers, std::span<const std::byte> payload = {}, bool stranger = false);
  // A frame as on the wire, from any sender; it is parsed first.
  Step receive_frame(std::span<const std::byte> frame);
  // An already parsed frame.
  Step receive_parsed(const Frame& frame);
  // For fuzzers: a packet that parse() drops gets no further.
  void receive_if_it_parses(const Headers& headers, std::span<const std::byte> payload);
  [[nodiscard]] Drop last_drop() const { return drop_; }

  // Everything that it has to send, with about `bytes_max` bytes and `frames_max` frames at most
  // per call of transmit().
  std::vector<SentPacket> transmit(std::uint32_t bytes_max = UINT32_MAX,
                                   std::uint32_t frames_max = TxBatch::kFramesMax);
  // One call of transmit(); its return value.
  std::uint32_t transmit_once(std::uint32_t bytes_max);

  void to_state(QpState state);
  void doorbell();

  // A Turn as from the worker.
  [[nodiscard]] Turn turn() {
    return {.now = now,
            .tx = tx_,
            .keys = keys,
            .events = events,
            .dirty_queues = dirty,
            .faults = faults};
  }

  Time now = 1'000'000;
  Quiescence quiescence;
  KeyTable keys;
  EventLog events;
  FaultSink* faults = nullptr;
  std::vector<CompletionQueue*> dirty;
  CompletionRing send_completions;
  CompletionRing receive_completions;
  WorkRing receives;
  WorkRing sends;
  CompletionQueue send_cq;
  CompletionQueue receive_cq;
  ReceiveQueue receive_queue;
  XrcDomain xrc_domain;

  // Builds such a frame, for receive_frame() or another queue pair.
  static Bytes frame_by(const FrameTemplate& sender, const Headers& headers,
                        std::span<const std::byte> payload);

 private:
  BatchFrames pool_;
  TxBatch tx_;
  QpAttributes attributes_;
  FrameTemplate peer_template_;
  std::unique_ptr<Qp> qp_;
  Drop drop_ = Drop::kNone;
};

// The paths of the two ends.
[[nodiscard]] Path local_path();
[[nodiscard]] Path peer_path();

// Bytes that vary with position and seed.
[[nodiscard]] Bytes pattern(std::uint32_t seed, std::size_t length);

// A Frame over a copy of bytes; parse() it afterwards.
struct FrameCopy {
  explicit FrameCopy(std::span<const std::byte> bytes);
  Bytes bytes;
  Frame frame;
};

}  // namespace uroce::test
