// UC and UD between a hostile program and a hostile peer: any send entries (address handles that
// don't exist or are another domain's, absurd lengths), any packets. Nothing is written out of
// bounds, nothing is ever answered, and each receive work request completes once, in order.

#include <array>
#include <cstring>
#include <deque>

#include "tests/fuzz/qp_subject.h"

namespace uroce::test {
namespace {

class Session {
 public:
  explicit Session(QpType type) : subject_(type) {}

  void step(ByteSource& source) {
    switch (source.below(12)) {
      case 0:
      case 1:
        post_send(source);
        break;
      case 2:
        subject_.rig().doorbell();
        break;
      case 3:
        subject_.transmit(source);
        break;
      case 4:
      case 5:
        post_receive(source);
        break;
      case 6:
        if (source.below(4) == 0 && subject_.modify(source)) {
          posted_.clear();  // RESET drops posted work without completions
        }
        break;
      case 7:
        if (source.below(8) == 0) {
          subject_.deregister_and_register();
        }
        break;
      default:
        subject_.receive(source);
        break;
    }
    check();
  }

  void finish() {
    subject_.rig().to_state(QpState::kErr);
    check();
    require(subject_.rig().receive_cq.broken() || posted_.empty(),
            "a receive work request never completed");
  }

 private:
  void post_send(ByteSource& source) {
    WorkRing& ring = subject_.rig().sends;
    if (ring.waiting() == ring.entry_count) {
      return;
    }
    std::byte* slot =
        ring.entries.data() +
        std::size_t{ring.control.producer.value & (ring.entry_count - 1)} * ring.stride;
    abi::SendWr request{};
    request.opcode = static_cast<abi::WrOpcode>(source.below(18));
    request.flags = source.take<std::uint8_t>();
    const std::uint32_t sges = source.below(6), inline_bytes = source.below(96);
    request.payload_count =
        static_cast<std::uint16_t>((request.flags & abi::kInline) != 0 ? inline_bytes : sges);
    request.ud = {.ah = source.below(8) == 0 ? source.take<std::uint32_t>() : source.below(4),
                  .remote_qpn = source.take<std::uint32_t>(),
                  .remote_qkey = source.take<std::uint32_t>(),
                  .reserved = source.take<std::uint8_t>()};
    std::memcpy(slot, &request, sizeof(request));
    for (std::uint32_t i = 0; i < std::min(sges, 4U); ++i) {
      const abi::Sge sge{.address = subject_.address(source),
                         .length = subject_.length(source),
                         .lkey = subject_.key(source)};
      std::memcpy(slot + abi::kSendPayloadOffset + i * sizeof(sge), &sge, sizeof(sge));
    }
    ring.control.producer.value.fetch_add(1, std::memory_order_release);
  }

  void post_receive(ByteSource& source) {
    WorkRing& ring = subject_.rig().receives;
    if (ring.waiting() == ring.entry_count) {
      return;
    }
    std::array<abi::Sge, 4> sges{};
    const std::uint32_t count = source.below(5);
    for (std::uint32_t i = 0; i < count; ++i) {
      sges[i] = {.address = subject_.address(source),
                 .length = subject_.length(source),
                 .lkey = subject_.key(source)};
    }
    posted_.push_back(next_);
    ring.post_receive(next_++, {sges.data(), count});
    if (subject_.rig().qp().state() == QpState::kErr) {
      subject_.rig().doorbell();
    }
  }

  void check() {
    QpRig& rig = subject_.rig();
    require(rig.qp().deadline() == kNever, "it waits for an answer");
    (void)rig.send_completions.poll_all();
    for (const abi::Cqe& cqe : rig.receive_completions.poll_all()) {
      require(!posted_.empty() && posted_.front() == cqe.wr_id,
              "a receive work request completed twice or out of order");
      posted_.pop_front();
    }
  }

  QpSubject subject_;
  std::deque<std::uint64_t> posted_;
  std::uint64_t next_ = 1;
};

}  // namespace
}  // namespace uroce::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  uroce::test::ByteSource source(data, size);
  uroce::test::Session session(source.flag() ? uroce::QpType::kUc : uroce::QpType::kUd);
  while (!source.empty()) {
    session.step(source);
  }
  session.finish();
  return 0;
}
