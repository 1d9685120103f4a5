// XRC domains: who can open which, and the lifetime of domains and of their receiving queue pairs.

#include <fcntl.h>

#include <array>
#include <cstring>
#include <ctime>
#include <memory>

#include "abi/cq_records.h"
#include "abi/device_records.h"
#include "base/sanitized.h"
#include "control/sessions/events.h"
#include "dataplane/wire/packet.h"
#include "tests/qp/rig.h"
#include "tests/unit/control/sessions/listener.h"
#include "tests/unit/control/sessions/xrc_rig.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kInitState = 1;
constexpr std::uint32_t kMost = 1'024;  // domains that a user may have open

TEST_F(XrcTest, AFileNamesADomain) {
  EXPECT_EQ(open(a, 0, file.get()).header.error, EAGAIN) << "there is none yet";
  const auto mine = open(a, abi::kXrcdCreate | abi::kXrcdExclusive, file.get());
  ASSERT_EQ(mine.header.error, 0) << mine.message();
  EXPECT_EQ(open(b, abi::kXrcdCreate | abi::kXrcdExclusive, file.get()).header.error, EINVAL);
  EXPECT_EQ(open(b, 0, other_file.get()).header.error, EAGAIN) << "another file, another domain";
  const auto same = open(b, abi::kXrcdCreate, file.get());
  ASSERT_EQ(same.header.error, 0);
  const auto qpn = make_target(a, mine.as<abi::HandleReply>().handle).as<abi::CreateQpReply>().qpn;
  EXPECT_EQ(open_target(b, same.as<abi::HandleReply>().handle, qpn).header.error, 0);
}

// Opening a path (O_PATH) requires no right to the file.
TEST_F(XrcTest, APathDescriptorIsRefused) {
  ASSERT_EQ(open(a, abi::kXrcdCreate, file.get()).header.error, 0);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const UniqueFd only_path(::open(path.c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(only_path.valid());
  const auto refused = open(b, 0, only_path.get());
  EXPECT_EQ(refused.header.error, EBADF);
  EXPECT_NE(refused.message().find("O_PATH"), std::string::npos) << refused.message();
  EXPECT_EQ(open(b, abi::kXrcdCreate, only_path.get()).header.error, EBADF);
  EXPECT_EQ(open(b, 0, file.get()).header.error, 0);
}

TEST_F(XrcTest, WithoutAFileADomainIsPrivate) {
  EXPECT_EQ(open(a, 0).header.error, EAGAIN);
  const auto mine = open(a, abi::kXrcdCreate);
  const auto theirs = open(b, abi::kXrcdCreate);
  ASSERT_EQ(mine.header.error, 0);
  ASSERT_EQ(theirs.header.error, 0);
  const auto qpn = make_target(a, mine.as<abi::HandleReply>().handle).as<abi::CreateQpReply>().qpn;
  EXPECT_EQ(open_target(b, theirs.as<abi::HandleReply>().handle, qpn).header.error, EINVAL);
}

TEST_F(XrcTest, ADomainEndsWithItsLastHandle) {
  const auto mine = open(a, abi::kXrcdCreate, file.get());
  const auto theirs = open(b, 0, file.get());
  EXPECT_EQ(a.ask_about(abi::Command::kCloseXrcd, mine.as<abi::HandleReply>().handle).header.error,
            0);
  EXPECT_EQ(open(a, 0, file.get()).header.error, 0) << "b holds it";
  EXPECT_EQ(
      b.ask_about(abi::Command::kCloseXrcd, theirs.as<abi::HandleReply>().handle).header.error, 0);
  EXPECT_EQ(a.ask_about(abi::Command::kCloseXrcd, 1).header.error, 0);
  EXPECT_EQ(open(a, 0, file.get()).header.error, EAGAIN);
}

TEST_F(XrcTest, ADomainInUseCantBeClosed) {
  const std::uint32_t xrcd = open(a, abi::kXrcdCreate).as<abi::HandleReply>().handle;
  const auto srq = make_srq(a, xrcd);
  ASSERT_EQ(srq.header.error, 0) << srq.message();
  const auto qp = make_target(a, xrcd);
  ASSERT_EQ(qp.header.error, 0) << qp.message();
  EXPECT_EQ(a.ask_about(abi::Command::kCloseXrcd, xrcd).header.error, EBUSY);
  EXPECT_EQ(a.ask_about(abi::Command::kDestroyCq, 0).header.error, EBUSY)
      << "the SRQ completes into it";
  const auto handle = srq.as<abi::CreateSrqReply>().handle;
  EXPECT_EQ(a.ask_about(abi::Command::kDestroySrq, handle).header.error, 0);
  EXPECT_EQ(a.ask_about(abi::Command::kDestroyCq, 0).header.error, 0);
  EXPECT_EQ(a.ask_about(abi::Command::kCloseXrcd, xrcd).header.error, EBUSY);
  EXPECT_EQ(a.ask_about(abi::Command::kDestroyQp, qp.as<abi::CreateQpReply>().handle).header.error,
            0);
  EXPECT_EQ(a.ask_about(abi::Command::kCloseXrcd, xrcd).header.error, 0);
}

TEST_F(XrcTest, AReceivingQueuePairOutlivesItsMaker) {
  std::uint32_t qpn = 0;
  std::uint32_t handle = 0;
  open(b, abi::kXrcdCreate, file.get());
  {
    Program maker(rig);
    maker.open();
    open(maker, 0, file.get());
    const auto made = make_target(maker, 0).as<abi::CreateQpReply>();
    qpn = made.qpn;
    abi::ModifyQpRequest modify{};
    modify.handle = made.handle;
    modify.mask = 1U | 8U | 16U | 32U;  // state, access, P_Key index, port
    modify.attributes.state = kInitState;
    modify.attributes.port = 1;
    ASSERT_EQ(maker.ask(abi::Command::kModifyQp, modify).header.error, 0);
    const auto opened = open_target(b, 0, qpn);
    ASSERT_EQ(opened.header.error, 0) << opened.message();
    handle = opened.as<abi::CreateQpReply>().handle;
  }
  const auto known = b.ask_about(abi::Command::kQueryQp, handle).as<abi::QueryQpReply>();
  EXPECT_EQ(known.attributes.state, kInitState);
  EXPECT_EQ(known.attributes.port, 1U);
  ASSERT_NE(rig.card.qpns().find(qpn), nullptr);
  EXPECT_EQ(rig.card.qpns().find(qpn)->session, &b.session);
  EXPECT_EQ(b.ask_about(abi::Command::kDestroyQp, handle).header.error, 0);
  EXPECT_EQ(rig.card.qpns().find(qpn), nullptr);
  EXPECT_EQ(open_target(b, 0, qpn).header.error, EINVAL);
}

TEST_F(XrcTest, DomainsAndHandlesAreBounded) {
  {
    Program greedy(rig);
    greedy.open();
    rig.card.shares().set_limits(
        {.of_everybody = {}, .of_user = {{::getuid(), {"greedy", {{Limit::kXrcds, kMost}}}}}});
    for (std::uint32_t i = 0; i < kMost; ++i) {
      ASSERT_EQ(open(greedy, abi::kXrcdCreate).header.error, 0) << i;
    }
    EXPECT_EQ(open(greedy, abi::kXrcdCreate).header.error, ENOMEM);
    EXPECT_EQ(greedy.ask_about(abi::Command::kCloseXrcd, 0).header.error, 0);
    EXPECT_EQ(open(greedy, abi::kXrcdCreate).header.error, 0);
    EXPECT_EQ(rig.card.shares().used(Limit::kXrcds), kMost);
  }
  EXPECT_EQ(rig.card.shares().used(Limit::kXrcds), 0U);

  open(a, abi::kXrcdCreate);
  const auto made = make_target(a, 0).as<abi::CreateQpReply>();
  for (std::uint32_t i = 1; i < kXrcHandlesMax; ++i) {
    ASSERT_EQ(open_target(a, 0, made.qpn).header.error, 0) << i;
  }
  EXPECT_EQ(open_target(a, 0, made.qpn).header.error, ENOMEM);
  EXPECT_EQ(a.ask_about(abi::Command::kDestroyQp, made.handle).header.error, 0);
  EXPECT_EQ(open_target(a, 0, made.qpn).header.error, 0);
}

double seconds_since(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// A queue that is destroyed by itself costs a pass over all receiving queue pairs of its domain.
TEST_F(XrcTest, TheQueuesOfASessionLeaveADomainInOnePass) {
  constexpr std::uint32_t kSingle = 100;
  constexpr std::uint32_t kQueues = kSingle + 20 * kSingle;
  constexpr int kTargets = 6'000;
  open(a, abi::kXrcdCreate, file.get());
  for (int i = 0; i < kTargets; ++i) {
    ASSERT_EQ(make_target(a, 0).header.error, 0) << i;
  }
  auto leaving = std::make_unique<Program>(rig);
  leaving->open();
  ASSERT_EQ(leaving->make_pd() + leaving->make_cq(), 0U);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(open(*leaving, 0, file.get()).header.error, 0) << "several handles of one domain";
  }
  for (std::uint32_t i = 0; i < kQueues; ++i) {
    ASSERT_EQ(make_srq(*leaving, i % 4).header.error, 0) << i;
  }
  std::clock_t begin = std::clock();
  for (std::uint32_t i = 0; i < kSingle; ++i) {
    ASSERT_EQ(leaving->ask_about(abi::Command::kDestroySrq, i).header.error, 0);
  }
  const double of_single = seconds_since(begin);
  begin = std::clock();
  leaving.reset();
  const double of_all = seconds_since(begin);
  RecordProperty("seconds", std::to_string(of_single) + ", " + std::to_string(of_all));
  if (!kSanitized) {
    EXPECT_LT(of_all, 5 * of_single) << "otherwise 20 times as much";
  }
}

TEST_F(XrcTest, QueuesOfOneKindAreRefusedForTheOther) {
  const std::uint32_t xrcd = open(a, abi::kXrcdCreate).as<abi::HandleReply>().handle;
  const std::uint32_t srq = make_srq(a, xrcd).as<abi::CreateSrqReply>().handle;
  abi::CreateQpRequest rc = a.rc_qp(0, 0);
  rc.srq = srq + 1;
  EXPECT_EQ(a.ask(abi::Command::kCreateQp, rc).header.error, EINVAL);
  abi::CreateQpRequest sender = a.rc_qp(0, 0);
  sender.type = static_cast<std::uint32_t>(QpType::kXrcSend);
  const auto made = a.ask(abi::Command::kCreateQp, sender);
  ASSERT_EQ(made.header.error, 0) << made.message();
  EXPECT_EQ(made.as<abi::CreateQpReply>().recv.entries, 0U);
  EXPECT_EQ(make_srq(a, 99).header.error, EINVAL);
  EXPECT_EQ(make_target(a, 99).header.error, EINVAL);
}

// Two programs with a shared receive queue each in one domain, and receiving queue pairs of it.
class XrcOverrun : public XrcTest {
 protected:
  static constexpr auto kFatal = static_cast<std::uint32_t>(AsyncEvent::kQpFatal);

  XrcOverrun() {
    EXPECT_EQ(open(mine.program, abi::kXrcdCreate, file.get()).header.error, 0);
    EXPECT_EQ(open(theirs.program, 0, file.get()).header.error, 0);
    my_srq = make_srq(mine.program, 0).as<abi::CreateSrqReply>().srqn;
    their_srq = make_srq(theirs.program, 0).as<abi::CreateSrqReply>().srqn;
  }

  // A queue pair in RTR that both programs hold.
  Qp& make_receiver() {
    const auto made = make_target(mine.program, 0).as<abi::CreateQpReply>();
    EXPECT_EQ(open_target(theirs.program, 0, made.qpn).header.error, 0);
    Qp& qp = *mine.program.session.qps.find(made.handle)->qp;
    rig.card.engine().call(made.worker, [&](Worker& worker) {
      QpAttributes attributes = test::QpRig::default_attributes();
      attributes.state = QpState::kInit;
      worker.modify_qp(qp, attributes, kQpMaskState | kQpMaskAccess | kQpMaskPkeyIndex);
      attributes.state = QpState::kRtr;
      worker.modify_qp(qp, attributes,
                       kQpMaskState | kQpMaskPath | kQpMaskPathMtu | kQpMaskDestQpn | kQpMaskRqPsn |
                           kQpMaskMaxDestRdAtomic | kQpMaskMinRnrTimer);
    });
    return qp;
  }
  // A message for the queue `srqn`, which has no receive for it.
  void message(Qp& qp, std::uint32_t srqn) { receive(qp, Opcode::kXrcSendOnly, srqn, {}); }
  // The first packet of a message, for which the queue pair takes a receive of the queue.
  void begin_message(Qp& qp, std::uint32_t srqn) {
    receive(qp, Opcode::kXrcSendFirst, srqn, test::pattern(1, kMtu));
  }
  void receive(Qp& qp, Opcode opcode, std::uint32_t srqn, std::span<const std::byte> payload) {
    test::FrameCopy copy(test::QpRig::frame_by(
        FrameTemplate(test::peer_path()),
        {.opcode = opcode, .dest_qpn = qp.config().qpn, .psn = 100, .xrc_srqn = srqn}, payload));
    ASSERT_EQ(parse(copy.frame), Drop::kNone);
    Turn turn = bench.turn();
    Drop drop = Drop::kNone;
    EXPECT_EQ(qp.receive(copy.frame, turn, &drop), Step::kDone);
    EXPECT_EQ(drop, Drop::kNone);
  }

  // Posts receives to the program's first shared receive queue.
  void post_receives(Program& program, std::uint32_t count) {
    const SrqObject& srq = *program.session.srqs.find(0);
    const std::uint32_t key = bench.add_region(memory, kAddress, kAccessLocalWrite, srq.pd->id);
    const abi::RecvWr request{.wr_id = 1, .sge_count = 1, .reserved = 0};
    const abi::Sge sge{kAddress, static_cast<std::uint32_t>(memory.size()), key};
    for (std::uint32_t i = 0; i < count; ++i) {
      std::byte* const entry =
          srq.memory.data() + sizeof(abi::RingControl) + std::size_t{i} * abi::recv_stride(1);
      std::memcpy(entry, &request, sizeof(request));
      std::memcpy(entry + abi::kRecvSgeOffset, &sge, sizeof(sge));
    }
    reinterpret_cast<abi::RingControl*>(srq.memory.data())->producer.value.store(count);
  }
  // Ends the queue pair, which then completes the receive that it holds.
  void fail_at_its_worker(Qp& qp) {
    rig.card.engine().call(qp.config().worker,
                           [&](Worker& worker) { EXPECT_TRUE(fail(worker, qp)); });
  }
  // Completions in the program's queue.
  static std::uint32_t completions(const Listener& owner) {
    const CqObject& cq = *owner.program.session.cqs.find(owner.cq);
    return reinterpret_cast<const abi::CqControl*>(cq.memory.data())->ring.producer.value.load();
  }

  static constexpr std::size_t kMtu = 1'024;
  static constexpr std::uint64_t kAddress = 0x10'0000;
  test::Bytes memory = test::Bytes(4 * kMtu);
  Listener mine{rig}, theirs{rig};
  std::uint32_t my_srq = 0, their_srq = 0;
  test::QpRig bench;  // provides the worker's turn
};

TEST_F(XrcOverrun, EndsTheQueuePairsThatUseTheQueue) {
  Qp& used = make_receiver();
  Qp& idle = make_receiver();
  message(used, my_srq);
  message(idle, their_srq);
  announce_overrun(mine.program.session, mine.cq);
  EXPECT_EQ(mine.next().event, static_cast<std::uint32_t>(AsyncEvent::kCqErr));
  EXPECT_EQ(mine.next().event, static_cast<std::uint32_t>(AsyncEvent::kSrqErr));
  const abi::AsyncEventRecord fatal = mine.next();
  EXPECT_EQ(fatal.event, kFatal);
  EXPECT_EQ(fatal.cookie, 500U);
  EXPECT_EQ(mine.next().event, Listener::kNone);
  EXPECT_EQ(theirs.next().event, kFatal) << "it holds the queue pair too";
  EXPECT_EQ(theirs.next().event, Listener::kNone);
  EXPECT_EQ(used.state(), QpState::kErr);
  EXPECT_EQ(idle.state(), QpState::kRtr);
}

// The acknowledgement that a receiving queue pair owes its peer is sent before its last handle is
// closed: otherwise the peer's message, which was received, fails.
TEST_F(XrcOverrun, PendingAcknowledgementsAreSentBeforeItEnds) {
  Qp& receiver = make_receiver();
  message(receiver, my_srq);
  const std::uint32_t qpn = receiver.config().qpn;
  const std::uint32_t worker = receiver.config().worker;
  for (Program* program : {&mine.program, &theirs.program}) {
    const std::uint32_t handle = program->session.qps.handles_end() - 1;
    EXPECT_EQ(program->ask_about(abi::Command::kDestroyQp, handle).header.error, 0);
  }
  EXPECT_EQ(rig.card.qpns().find(qpn), nullptr);
  rig.quiescence().online(worker);
  rig.card.engine().call(worker, [&](Worker& its) {
    its.poll(rig.now);
    EXPECT_EQ(its.counters().tx_frames, 1U);
  });
  rig.quiescence().offline(worker);
}

// What a receiving queue pair holds when queues leave its domain: of those nothing is left, of
// others what it had.
class XrcQueuesThatLeave : public XrcOverrun {
 protected:
  XrcQueuesThatLeave() {
    post_receives(mine.program, kReceivers);
    for (Qp*& receiver : receivers) {
      receiver = &make_receiver();
      begin_message(*receiver, my_srq);
    }
    post_receives(theirs.program, 1);
    begin_message(other, their_srq);
  }
  void expect_forgotten() {
    for (Qp* receiver : receivers) {
      fail_at_its_worker(*receiver);
    }
    EXPECT_EQ(completions(mine), 0U);
    fail_at_its_worker(other);
    EXPECT_EQ(completions(theirs), 1U) << "its queue is in the domain still";
  }

  static constexpr std::uint32_t kReceivers = 3;  // of two workers
  std::array<Qp*, kReceivers> receivers{};
  Qp& other = make_receiver();
};

TEST_F(XrcQueuesThatLeave, HoldTheirReceivesUntilThen) {
  for (Qp* receiver : receivers) {
    fail_at_its_worker(*receiver);
  }
  EXPECT_EQ(completions(mine), kReceivers);
}

TEST_F(XrcQueuesThatLeave, OneByOneAreForgotten) {
  EXPECT_EQ(mine.program.ask_about(abi::Command::kDestroySrq, 0).header.error, 0);
  expect_forgotten();
}

TEST_F(XrcQueuesThatLeave, TogetherAreForgotten) {
  leave_xrc_domains(mine.program.session);
  expect_forgotten();
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    const auto& seen = mine.program.session.xrcds.find(0)->domain->seen[worker];
    EXPECT_EQ(seen.find(my_srq), nullptr);
    EXPECT_NE(seen.find(their_srq), nullptr);
  }
}

TEST_F(XrcOverrun, RefusesLaterMessagesForTheQueue) {
  Qp& receiver = make_receiver();
  announce_overrun(mine.program.session, mine.cq);
  message(receiver, their_srq);
  EXPECT_EQ(receiver.state(), QpState::kRtr) << "the other program's queue works";
  bench.events.entries.clear();
  message(receiver, my_srq);
  EXPECT_EQ(receiver.state(), QpState::kErr);
  EXPECT_EQ(bench.events.entries,
            (std::vector<test::EventLog::Entry>{{AsyncEvent::kQpFatal, receiver.config().qpn}}));
}

}  // namespace
}  // namespace uroce::control
