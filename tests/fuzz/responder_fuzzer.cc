// A hostile peer: any sequence of well-formed packets, requests and responses, to a queue pair (RC,
// or the receiving end of XRC) of a correct program. Nothing may crash or be written out of bounds,
// all that is sent must parse, and each receive work request completes once and in order.

#include <array>
#include <deque>

#include "tests/fuzz/qp_subject.h"

namespace uroce::test {
namespace {

class Session {
 public:
  explicit Session(QpType type) : type_(type), subject_(type) {}

  void step(ByteSource& source) {
    switch (source.below(16)) {
      default:
        subject_.receive(source);
        break;
      case 8:
      case 9:
        subject_.transmit(source);
        break;
      case 10:
      case 11:
        post_receive(source);
        break;
      case 12:
        post_send(source);
        break;
      case 13:
        subject_.wait(source);
        break;
      case 14:
        switch (source.below(8)) {
          case 0:
            subject_.deregister_and_register();
            break;
          case 1:
          case 2:
          case 3:
            subject_.change_window(source);
            break;
          case 4:
          case 5:
            subject_.receive_sack_packet(source);
            break;
          default:
            break;
        }
        break;
      case 15:
        if (source.below(4) == 0 && subject_.modify(source)) {
          // RESET drops the receives that were taken, without completions; with a receive queue of
          // its own, all.
          while (posted_.size() > subject_.rig().receives.waiting()) {
            posted_.pop_front();
          }
        }
        break;
    }
    check_receives();
  }

  // In any case, ERR ends everything that was posted, except what others may take.
  void finish() {
    subject_.rig().to_state(QpState::kErr);
    check_receives();
    const std::size_t left = type_ == QpType::kXrcRecv ? subject_.rig().receives.waiting() : 0;
    require(subject_.rig().receive_cq.broken() || posted_.size() == left,
            "a receive work request never completed");
  }

 private:
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

  void post_send(ByteSource& source) {
    WorkRing& ring = subject_.rig().sends;
    if (ring.waiting() == ring.entry_count) {
      return;
    }
    abi::SendWr request{};
    request.opcode = static_cast<abi::WrOpcode>(source.below(7));
    request.flags = abi::kSignaled;
    request.rkey = 1;
    const abi::Sge sge{
        .address = QpSubject::kIova,
        .length = request.opcode >= abi::WrOpcode::kAtomicCmpAndSwp ? 8 : source.below(2'048),
        .lkey = subject_.key(source)};
    ring.post_send(request, {&sge, 1});
    subject_.rig().doorbell();
  }

  void check_receives() {
    (void)subject_.rig().send_completions.poll_all();
    for (const abi::Cqe& cqe : subject_.rig().receive_completions.poll_all()) {
      require(!posted_.empty() && posted_.front() == cqe.wr_id,
              "a receive work request completed twice or out of order");
      posted_.pop_front();
    }
  }

  QpType type_;
  QpSubject subject_;
  std::deque<std::uint64_t> posted_;
  std::uint64_t next_ = 1;
};

}  // namespace
}  // namespace uroce::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  uroce::test::ByteSource source(data, size);
  uroce::test::Session session(source.flag() ? uroce::QpType::kXrcRecv : uroce::QpType::kRc);
  while (!source.empty()) {
    session.step(source);
  }
  session.finish();
  return 0;
}
