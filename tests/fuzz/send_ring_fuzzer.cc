// A hostile program: any bytes in its send, receive and completion rings, any index, at any moment,
// with a peer that answers something. Only its own queue pair may suffer: nothing is read or
// written outside the rings and its registered memory, and each turn ends.

#include <cstring>

#include "tests/fuzz/qp_subject.h"

namespace uroce::test {
namespace {

class Session {
 public:
  void step(ByteSource& source) {
    switch (source.below(14)) {
      case 0:
      case 1:
        post_nearly_right(source);
        break;
      case 2:
        scribble(source, rig().sends.entries);
        break;
      case 3:
        scribble(source, rig().receives.entries);
        break;
      case 4:
        spoil(source, rig().sends.control.producer);
        break;
      case 5:
        spoil(source, rig().receives.control.producer);
        break;
      case 6:
        spoil(source, rig().receive_completions.control.ring.consumer);
        break;
      case 7:
        spoil(source, rig().send_completions.control.ring.consumer);
        break;
      case 8:
        rig().doorbell();
        break;
      case 9:
        subject_.transmit(source);
        break;
      case 10:
        subject_.wait(source);
        break;
      case 11:
        subject_.modify(source);
        break;
      case 12:
        spoil_stamp(source);
        break;
      default:
        subject_.receive(source);
        break;
    }
  }

 private:
  QpRig& rig() { return subject_.rig(); }

  // Writes into the slot that the daemon reads next, or any other.
  void post_nearly_right(ByteSource& source) {
    WorkRing& ring = rig().sends;
    std::atomic<std::uint32_t>& producer = ring.control.producer.value;
    const std::uint32_t index = producer.load(std::memory_order_relaxed);
    std::byte* slot =
        ring.entries.data() + std::size_t{index & (ring.entry_count - 1)} * ring.stride;
    abi::SendWr request{};
    request.wr_id = index;
    request.opcode = static_cast<abi::WrOpcode>(source.below(18));
    request.flags = source.take<std::uint8_t>();
    const std::uint32_t sges = source.below(6), inline_bytes = source.below(96);
    request.payload_count =
        static_cast<std::uint16_t>((request.flags & abi::kInline) != 0 ? inline_bytes : sges);
    request.rkey = subject_.key(source);
    request.remote_address = subject_.address(source);
    std::memcpy(slot, &request, sizeof(request));
    for (std::uint32_t i = 0; i < std::min(sges, 4U); ++i) {
      const abi::Sge sge{.address = subject_.address(source),
                         .length = subject_.length(source),
                         .lkey = subject_.key(source)};
      std::memcpy(slot + abi::kSendPayloadOffset + i * sizeof(sge), &sge, sizeof(sge));
    }
    producer.store(index + 1, std::memory_order_release);
  }

  static void scribble(ByteSource& source, Bytes& entries) {
    const std::size_t at = source.take<std::uint16_t>() % entries.size();
    const auto bytes = source.bytes(std::min<std::size_t>(source.below(64), entries.size() - at));
    if (!bytes.empty()) {
      std::memcpy(entries.data() + at, bytes.data(), bytes.size());
    }
  }

  static void spoil(ByteSource& source, abi::RingIndex& index) {
    if (source.below(4) == 0) {
      index.value.store(source.take<std::uint32_t>(), std::memory_order_relaxed);
    } else {
      index.value.fetch_add(source.below(3), std::memory_order_relaxed);
    }
  }

  // Mostly an answer to a request that was made, about a work request that may not have been
  // posted.
  void spoil_stamp(ByteSource& source) {
    abi::RingControl& ring = rig().sends.control;
    const std::uint32_t posted = ring.producer.value.load(std::memory_order_relaxed);
    ring.producer.stamped.store(posted + 1 - source.below(4), std::memory_order_relaxed);
    ring.producer.stamp_ns.store(source.take<std::uint64_t>(), std::memory_order_relaxed);
    ring.producer.stamp_given.store(
        ring.producer.stamp_wanted.load(std::memory_order_relaxed) - source.below(2),
        std::memory_order_relaxed);
  }

  QpSubject subject_;
};

}  // namespace
}  // namespace uroce::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  uroce::test::ByteSource source(data, size);
  uroce::test::Session session;
  while (!source.empty()) {
    session.step(source);
  }
  return 0;
}
