#include <algorithm>

#include "abi/verbs_mask.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

using enum abi::VerbsMask;

constexpr std::uint32_t kToInit = kVerbsState | kVerbsPkeyIndex | kVerbsPort | kVerbsAccessFlags;
constexpr std::uint32_t kToRtr = kVerbsState | kVerbsAv | kVerbsPathMtu | kVerbsDestQpn |
                                 kVerbsRqPsn | kVerbsMaxDestRdAtomic | kVerbsMinRnrTimer;
constexpr std::uint32_t kToRts =
    kVerbsState | kVerbsTimeout | kVerbsRetryCnt | kVerbsRnrRetry | kVerbsSqPsn | kVerbsMaxRdAtomic;

class ModifyQp : public ::testing::Test {
 protected:
  ModifyQp() {
    program.open();
    const std::uint32_t pd = program.make_pd();
    const auto qp = program.ask(abi::Command::kCreateQp, program.rc_qp(pd, program.make_cq()))
                        .as<abi::CreateQpReply>();
    request.handle = qp.handle;
    abi::QpAttributesRecord& a = request.attributes;
    a.port = 1;
    a.access = kAccessRemoteWrite;
    a.path_mtu = 5;
    a.dest_qpn = 0x1234;
    a.rq_psn = 1;
    a.sq_psn = 2;
    a.max_rd_atomic = a.max_dest_rd_atomic = 16;
    a.min_rnr_timer = 12;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    a.address.is_global = 1;
    a.address.port = 1;
    a.address.sgid_index = 1;
    std::copy_n(parse_ip("10.0.0.7")->bytes.begin(), 16, a.address.dgid);
  }
  Answer modify(QpState to, std::uint32_t mask) {
    request.attributes.state = static_cast<std::uint32_t>(to);
    request.mask = mask;
    return program.ask(abi::Command::kModifyQp, request);
  }
  void go_to(QpState to) {
    ASSERT_EQ(modify(QpState::kInit, kToInit).header.error, 0);
    if (to == QpState::kInit) {
      return;
    }
    const Answer answer = modify(QpState::kRtr, kToRtr);
    ASSERT_EQ(answer.header.error, 0) << answer.message();
    if (to == QpState::kRts) {
      ASSERT_EQ(modify(QpState::kRts, kToRts).header.error, 0);
    }
  }
  void expect_refusal(const Answer& answer, const char* says) {
    EXPECT_EQ(answer.header.error, EINVAL) << answer.message();
    EXPECT_NE(answer.message().find(says), std::string::npos) << answer.message();
  }
  const QpConfig& connect_to_itself() {
    const QpConfig& config = program.session.qps.find(request.handle)->qp->config();
    std::copy_n(parse_ip("10.0.0.1")->bytes.begin(), 16, request.attributes.address.dgid);
    request.attributes.dest_qpn = config.qpn;
    request.attributes.rq_psn = request.attributes.sq_psn = 0xFF'FFFF;
    go_to(QpState::kRts);
    return config;
  }
  // A WRITE of no bytes, which is one packet.
  void post_write(const QpConfig& config) {
    abi::SendWr write{};
    write.opcode = abi::WrOpcode::kRdmaWrite;
    std::memcpy(const_cast<std::byte*>(config.send_entries), &write, sizeof(write));
    config.send_control->producer.value.store(1);
    abi::ring(*program.session.bells(config.worker).bells, config.doorbell_slot);
  }
  void turn(std::uint32_t of) {
    rig.quiescence().online(of);
    rig.card.engine().call(of, [&](Worker& worker) { worker.poll(rig.now); });
    rig.quiescence().offline(of);
  }
  std::uint64_t frames_sent(std::uint32_t by) {
    std::uint64_t frames = 0;
    rig.card.engine().call(by, [&](Worker& worker) { frames = worker.counters().tx_frames; });
    return frames;
  }
  abi::QpAttributesRecord query() {
    return program.ask_about(abi::Command::kQueryQp, request.handle)
        .as<abi::QueryQpReply>()
        .attributes;
  }

  Rig rig;
  Program program{rig};
  abi::ModifyQpRequest request{};
};

TEST_F(ModifyQp, ConnectsAndReportsWhatWasSet) {
  go_to(QpState::kRts);
  const abi::QpAttributesRecord known = query();
  EXPECT_EQ(known.state, static_cast<std::uint32_t>(QpState::kRts));
  EXPECT_EQ(known.path_mtu, 5U);
  EXPECT_EQ(known.dest_qpn, 0x1234U);
  EXPECT_EQ(known.timeout, 14);
  EXPECT_EQ(known.max_rd_atomic, 16);
  EXPECT_EQ(known.address.dgid[15], 7);
  EXPECT_EQ(known.max_send_wr, 8U);
  EXPECT_EQ(modify(QpState::kErr, kVerbsState).header.error, 0);
  EXPECT_EQ(query().state, static_cast<std::uint32_t>(QpState::kErr));
  EXPECT_EQ(modify(QpState::kReset, kVerbsState).header.error, 0);
  go_to(QpState::kRts);
}

// A queue pair that is connected to itself does a WRITE of no bytes, in one packet.
TEST_F(ModifyQp, AQueryReportsItsProgress) {
  const QpConfig& config = connect_to_itself();
  const auto expect = [&](std::uint32_t sq_psn, std::uint32_t rq_psn, bool draining) {
    const abi::QpAttributesRecord known = query();
    EXPECT_EQ(known.sq_psn, sq_psn);
    EXPECT_EQ(known.rq_psn, rq_psn);
    EXPECT_EQ(known.sq_draining, draining ? 1 : 0);
  };
  expect(0xFF'FFFF, 0xFF'FFFF, false);

  post_write(config);
  turn(config.worker);
  expect(0, 0xFF'FFFF, false);  // sent
  EXPECT_EQ(modify(QpState::kSqd, kVerbsState).header.error, 0);
  expect(0, 0xFF'FFFF, true);
  turn(config.worker);
  expect(0, 0, true);  // received, and the acknowledgement sent
  turn(config.worker);
  expect(0, 0, false);
}

// rdma_disconnect() moves a queue pair to ERR, when a card has already processed the doorbells
// before it: the last message of a connection usually arrives, though its completion is flushed.
TEST_F(ModifyQp, WorkPostedBeforeErrIsSentOnce) {
  const QpConfig& config = connect_to_itself();
  post_write(config);
  EXPECT_EQ(modify(QpState::kErr, kVerbsState).header.error, 0);
  turn(config.worker);
  EXPECT_EQ(frames_sent(config.worker), 1U);
}

TEST_F(ModifyQp, WorkPostedBeforeAResetIsDropped) {
  const QpConfig& config = connect_to_itself();
  post_write(config);
  EXPECT_EQ(modify(QpState::kReset, kVerbsState).header.error, 0);
  turn(config.worker);
  EXPECT_EQ(frames_sent(config.worker), 0U);
}

TEST_F(ModifyQp, RefusesTransitionsThatTheTableLacks) {
  expect_refusal(modify(QpState::kRts, kToRts), "from RESET to RTS");
  expect_refusal(modify(QpState::kInit, kVerbsState), "IBV_QP_ACCESS_FLAGS");
  EXPECT_EQ(query().state, static_cast<std::uint32_t>(QpState::kReset)) << "nothing changed";
}

TEST_F(ModifyQp, TheMtuMustFitThePort) {
  go_to(QpState::kInit);
  request.attributes.path_mtu = 6;
  expect_refusal(modify(QpState::kRtr, kToRtr), "path_mtu");
  request.attributes.path_mtu = 0;
  expect_refusal(modify(QpState::kRtr, kToRtr), "path_mtu");
}

TEST_F(ModifyQp, ValuesBeyondTheirLimitsAreNamed) {
  go_to(QpState::kInit);
  const auto refuse = [&](auto abi::QpAttributesRecord::*field, auto value, const char* says) {
    const abi::QpAttributesRecord good = request.attributes;
    request.attributes.*field = value;
    expect_refusal(modify(QpState::kRtr, kToRtr), says);
    request.attributes = good;
  };
  refuse(&abi::QpAttributesRecord::max_dest_rd_atomic, std::uint8_t{129}, "max_dest_rd_atomic");
  refuse(&abi::QpAttributesRecord::min_rnr_timer, std::uint8_t{32}, "min_rnr_timer");
  refuse(&abi::QpAttributesRecord::dest_qpn, std::uint32_t{0x1'000000}, "dest_qp_num");
}

TEST_F(ModifyQp, AddressesThatCannotWorkAreNamed) {
  go_to(QpState::kInit);
  abi::AddressRecord& address = request.attributes.address;
  const abi::AddressRecord good = address;
  address.is_global = 0;
  expect_refusal(modify(QpState::kRtr, kToRtr), "GRH");
  address = good;
  address.sgid_index = 9;
  expect_refusal(modify(QpState::kRtr, kToRtr), "GID index 9");
  address = good;
  address.sgid_index = 2;
  expect_refusal(modify(QpState::kRtr, kToRtr), "same kind");
  address = good;
  std::fill_n(address.dgid, 16, std::uint8_t{0});
  expect_refusal(modify(QpState::kRtr, kToRtr), "empty");
}

TEST_F(ModifyQp, TheGivenCurrentStateMustMatch) {
  go_to(QpState::kRtr);
  request.attributes.current_state = static_cast<std::uint32_t>(QpState::kRts);
  expect_refusal(modify(QpState::kRts, kToRts | kVerbsCurState), "is in RTR");
  request.attributes.current_state = static_cast<std::uint32_t>(QpState::kRtr);
  EXPECT_EQ(modify(QpState::kRts, kToRts | kVerbsCurState).header.error, 0);
}

TEST_F(ModifyQp, UnknownStatesAreRefused) {
  request.attributes.state = 4711;
  request.mask = kVerbsState;
  expect_refusal(program.ask(abi::Command::kModifyQp, request), "4711");
}

}  // namespace
}  // namespace uroce::control
