// Datagram queue pairs and what belongs to them: Q_Keys, address handles.

#include <algorithm>

#include "control/qp_states.h"
#include "dataplane/wire/headers.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kToInit = kVerbsState | kVerbsPkeyIndex | kVerbsPort | kVerbsQkey;

class DatagramTest : public ::testing::Test {
 protected:
  DatagramTest() {
    program.open();
    pd = program.make_pd();
    CreateQpRequest request = program.rc_qp(pd, program.make_cq());
    request.type = static_cast<std::uint32_t>(QpType::kUd);
    const Answer answer = program.ask(Command::kCreateQp, request);
    EXPECT_EQ(answer.header.error, 0) << answer.message();
    qp = answer.as<CreateQpReply>().handle;
  }
  Answer modify(QpState to, std::uint32_t mask, std::uint32_t qkey = 0x1111'1111) {
    ModifyQpRequest request{};
    request.handle = qp;
    request.mask = mask;
    request.attributes.state = static_cast<std::uint32_t>(to);
    request.attributes.port = 1;
    request.attributes.qkey = qkey;
    return program.ask(Command::kModifyQp, request);
  }
  Answer create_ah(const char* to, std::uint8_t sgid_index = 1) {
    CreateAhRequest request{};
    request.pd = pd;
    request.address.is_global = 1;
    request.address.port = 1;
    request.address.sgid_index = sgid_index;
    std::copy_n(parse_ip(to)->bytes.begin(), 16, request.address.dgid);
    return program.ask(Command::kCreateAh, request);
  }
  [[nodiscard]] const QpAttributes& attributes() {
    return program.session.qps.find(qp)->qp->attributes();
  }

  Rig rig;
  Program program{rig.card};
  std::uint32_t pd = 0;
  std::uint32_t qp = 0;
};

TEST_F(DatagramTest, GoesToReadyWithAQkeyOnly) {
  EXPECT_EQ(modify(QpState::kInit, kToInit).header.error, 0);
  EXPECT_EQ(modify(QpState::kRtr, kVerbsState).header.error, 0);
  EXPECT_EQ(modify(QpState::kRts, kVerbsState | kVerbsSqPsn).header.error, 0);
  EXPECT_EQ(attributes().qkey, 0x1111'1111U);
  EXPECT_EQ(attributes().path_mtu, 4096U) << "the port's";
}

TEST_F(DatagramTest, NobodySpeaksForQp1) {
  EXPECT_EQ(modify(QpState::kInit, kToInit, kGsiQkey).header.error, EPERM);
}

TEST_F(DatagramTest, WorkersSeeAddressHandlesOfTheirSession) {
  const Answer made = create_ah("10.0.0.7");
  ASSERT_EQ(made.header.error, 0) << made.message();
  const std::uint32_t handle = made.as<HandleReply>().handle;
  const AddressVector* address = program.session.addresses.find(handle);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(address->pd, program.session.pds.find(pd)->id);
  EXPECT_EQ(program.ask_about(Command::kDestroyAh, handle).header.error, 0);
  EXPECT_EQ(program.session.addresses.find(handle), nullptr);
}

TEST_F(DatagramTest, ManyAddressHandlesComeAndGo) {
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t handle = create_ah("10.0.0.7").as<HandleReply>().handle;
    EXPECT_EQ(program.ask_about(Command::kDestroyAh, handle).header.error, 0);
  }
  EXPECT_EQ(rig.card.totals.address_handles, 0U);
  EXPECT_LT(program.session.retired_addresses.size(), 64U);
}

}  // namespace
}  // namespace uroce::control
