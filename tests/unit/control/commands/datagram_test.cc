// Datagram queue pairs and what they need: Q_Keys, address handles, groups.

#include <algorithm>

#include "abi/verbs_mask.h"
#include "dataplane/wire/headers.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

using enum abi::VerbsMask;

constexpr std::uint32_t kToInitDatagram = kVerbsState | kVerbsPkeyIndex | kVerbsPort | kVerbsQkey;

class DatagramTest : public ::testing::Test {
 protected:
  DatagramTest() {
    program.open();
    pd = program.make_pd();
    qp = make_qp(program, pd);
  }
  static std::uint32_t make_qp(Program& owner, std::uint32_t domain) {
    abi::CreateQpRequest request = owner.rc_qp(domain, owner.make_cq());
    request.type = static_cast<std::uint32_t>(QpType::kUd);
    const Answer answer = owner.ask(abi::Command::kCreateQp, request);
    EXPECT_EQ(answer.header.error, 0) << answer.message();
    return answer.as<abi::CreateQpReply>().handle;
  }
  Answer modify(QpState to, std::uint32_t mask, std::uint32_t qkey = 0x1111'1111) {
    return modify(program, qp, to, mask, qkey);
  }
  static Answer modify(Program& owner, std::uint32_t handle, QpState to, std::uint32_t mask,
                       std::uint32_t qkey) {
    abi::ModifyQpRequest request{};
    request.handle = handle;
    request.mask = mask;
    request.attributes.state = static_cast<std::uint32_t>(to);
    request.attributes.port = 1;
    request.attributes.qkey = qkey;
    return owner.ask(abi::Command::kModifyQp, request);
  }
  Answer create_ah(const char* to, std::uint8_t sgid_index = 1) {
    abi::CreateAhRequest request{};
    request.pd = pd;
    request.address.is_global = 1;
    request.address.port = 1;
    request.address.sgid_index = sgid_index;
    std::copy_n(parse_ip(to)->bytes.begin(), 16, request.address.dgid);
    return program.ask(abi::Command::kCreateAh, request);
  }
  [[nodiscard]] const QpAttributes& attributes() {
    return program.session.qps.find(qp)->qp->attributes();
  }

  Rig rig;
  Program program{rig};
  std::uint32_t pd = 0;
  std::uint32_t qp = 0;
};

TEST_F(DatagramTest, ReachesReadyOnlyWithAQkey) {
  EXPECT_EQ(modify(QpState::kInit, kToInitDatagram).header.error, 0);
  EXPECT_EQ(modify(QpState::kRtr, kVerbsState).header.error, 0);
  EXPECT_EQ(modify(QpState::kRts, kVerbsState | kVerbsSqPsn).header.error, 0);
  EXPECT_EQ(attributes().qkey, 0x1111'1111U);
  EXPECT_EQ(attributes().path_mtu, 4096U) << "the port's";
}

// Controlled Q_Keys, which have bit 31 (IBTA vol. 1, 10.2.4.1), keep ordinary programs out of queue
// pairs that carry management: QP1's is one of them.
TEST_F(DatagramTest, ControlledQkeysAreForRootAndTheDaemonsUser) {
  constexpr std::uint32_t kControlled[] = {kGsiQkey, 0x8000'0000, 0xFFFF'FFFF};
  Program ordinary(rig, ::geteuid() + 1);
  ordinary.open();
  const std::uint32_t theirs = make_qp(ordinary, ordinary.make_pd());
  for (const std::uint32_t qkey : kControlled) {
    const Answer refused = modify(ordinary, theirs, QpState::kInit, kToInitDatagram, qkey);
    EXPECT_EQ(refused.header.error, EPERM) << std::hex << qkey;
    EXPECT_NE(refused.message().find("root"), std::string::npos) << refused.message();
  }
  EXPECT_EQ(modify(ordinary, theirs, QpState::kInit, kToInitDatagram, 0x7FFF'FFFF).header.error, 0);
  for (const std::uint32_t qkey : kControlled) {
    EXPECT_EQ(modify(QpState::kInit, kToInitDatagram, qkey).header.error, 0) << std::hex << qkey;
  }
}

TEST_F(DatagramTest, WorkersSeeAddressHandlesOfTheirSession) {
  const Answer made = create_ah("10.0.0.7");
  ASSERT_EQ(made.header.error, 0) << made.message();
  const std::uint32_t handle = made.as<abi::HandleReply>().handle;
  const AddressVector* address = program.session.addresses().table().find(handle);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(address->pd, program.session.pds.find(pd)->id);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyAh, handle).header.error, 0);
  EXPECT_EQ(program.session.addresses().table().find(handle), nullptr);
}

TEST_F(DatagramTest, ManyAddressHandlesComeAndGo) {
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t handle = create_ah("10.0.0.7").as<abi::HandleReply>().handle;
    EXPECT_EQ(program.ask_about(abi::Command::kDestroyAh, handle).header.error, 0);
  }
  EXPECT_EQ(rig.card.shares().used(Limit::kAhs), 0U);
  EXPECT_LT(program.session.addresses().retired(), 64U);
}

class GroupTest : public DatagramTest {
 protected:
  Answer change(abi::Command command, const char* group, std::uint32_t handle) {
    abi::MulticastRequest request{};
    request.handle = handle;
    std::copy_n(parse_ip(group)->bytes.begin(), 16, request.gid);
    return program.ask(command, request);
  }
  Answer attach(const char* group) { return change(abi::Command::kAttachMulticast, group, qp); }
  Answer detach(const char* group) { return change(abi::Command::kDetachMulticast, group, qp); }
};

TEST_F(GroupTest, QueuePairsComeAndGo) {
  EXPECT_EQ(attach("239.1.2.3").header.error, 0);
  EXPECT_EQ(attach("239.1.2.3").header.error, 0) << "attaching twice is no error, as in Linux";
  EXPECT_EQ(attach("ff0e::1").header.error, 0);
  EXPECT_EQ(rig.card.shares().used(Limit::kGroups), 2U);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyQp, qp).header.error, EBUSY);
  EXPECT_EQ(detach("239.1.2.3").header.error, 0);
  EXPECT_EQ(detach("239.1.2.3").header.error, EINVAL);
  EXPECT_EQ(detach("ff0e::1").header.error, 0);
  EXPECT_EQ(rig.card.shares().used(Limit::kGroups), 0U);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyQp, qp).header.error, 0);
}

TEST_F(GroupTest, GroupsAreLeftWhenTheProgramEnds) {
  {
    Program other(rig);
    other.open();
    const std::uint32_t other_pd = other.make_pd();
    abi::CreateQpRequest request = other.rc_qp(other_pd, other.make_cq());
    request.type = static_cast<std::uint32_t>(QpType::kUd);
    abi::MulticastRequest membership{};
    membership.handle = other.ask(abi::Command::kCreateQp, request).as<abi::CreateQpReply>().handle;
    std::copy_n(parse_ip("239.1.2.3")->bytes.begin(), 16, membership.gid);
    EXPECT_EQ(other.ask(abi::Command::kAttachMulticast, membership).header.error, 0);
    EXPECT_EQ(rig.card.shares().used(Limit::kGroups), 1U);
  }
  EXPECT_EQ(rig.card.shares().used(Limit::kGroups), 0U);
}

// Of a group's 240 queue pairs, and of all groups.
TEST_F(GroupTest, AUserLeavesOthersHalf) {
  Program one(rig, ::geteuid() + 1);
  one.open();
  Program other(rig, ::geteuid() + 2);
  other.open();
  const std::uint32_t ones_pd = one.make_pd();
  const auto attached = [](Program& owner, std::uint32_t domain, const char* group) {
    abi::MulticastRequest membership{};
    membership.handle = make_qp(owner, domain);
    std::copy_n(parse_ip(group)->bytes.begin(), 16, membership.gid);
    return owner.ask(abi::Command::kAttachMulticast, membership);
  };
  for (std::uint32_t i = 0; i < kGroupMembersMax / 2; ++i) {
    ASSERT_EQ(attached(one, ones_pd, "239.1.2.3").header.error, 0) << i;
  }
  const Answer refused = attached(one, ones_pd, "239.1.2.3");
  EXPECT_EQ(refused.header.error, ENOMEM);
  EXPECT_NE(refused.message().find("half of the 240"), std::string::npos) << refused.message();
  EXPECT_EQ(attached(other, other.make_pd(), "239.1.2.3").header.error, 0);
  EXPECT_EQ(rig.card.shares().used(Limit::kGroups), 2U) << "once for each user";
}

TEST_F(GroupTest, OnlyGroupsAndOnlyDatagrams) {
  EXPECT_EQ(attach("10.0.0.9").header.error, EINVAL);
  EXPECT_EQ(change(abi::Command::kAttachMulticast, "239.1.2.3", 4711).header.error, EINVAL);
  const std::uint32_t rc =
      program.ask(abi::Command::kCreateQp, program.rc_qp(pd, program.make_cq()))
          .as<abi::CreateQpReply>()
          .handle;
  EXPECT_EQ(change(abi::Command::kAttachMulticast, "239.1.2.3", rc).header.error, EINVAL);
}

TEST_F(GroupTest, GroupsOfAQueuePairAreBounded) {
  for (std::uint32_t i = 0; i < kGroupsOfQpMax; ++i) {
    ASSERT_EQ(attach(("239.1.2." + std::to_string(i)).c_str()).header.error, 0);
  }
  EXPECT_EQ(attach("239.1.3.1").header.error, ENOMEM);
}

TEST_F(GroupTest, AddressHandlesOfGroupsNeedNoResolution) {
  const std::uint32_t ipv6 = create_ah("ff0e::1:2", 2).as<abi::HandleReply>().handle;
  EXPECT_EQ(program.session.address_handles.find(ipv6)->path.destination_mac,
            (EtherAddress{{0x33, 0x33, 0, 1, 0, 2}}));
  EXPECT_EQ(create_ah("ff0e::1", 1).header.error, EINVAL) << "the source is IPv4";
}

}  // namespace
}  // namespace uroce::control
