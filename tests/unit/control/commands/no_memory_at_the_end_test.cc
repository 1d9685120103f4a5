// The end of a program when memory runs out. It can't fail: what it left would belong to nobody.

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <utility>

#include "abi/capture_records.h"
#include "control/paging/paging_service.h"
#include "tests/unit/cm_user/cm_program.h"
#include "tests/unit/control/commands/no_memory.h"

namespace uroce::control {
namespace {

using cm_user::CmProgram;
using cm_user::EventNumber;
using cm_user::ProgramChannel;
using test::fails_for_good;

class NoMemoryAtTheEndTest : public NoMemoryTest {
 protected:
  template <typename Body>
  void make(Program& ending, abi::Command command, const Body& body) {
    const Answer made = ending.ask(command, body);
    EXPECT_EQ(made.header.error, 0) << static_cast<int>(command) << ": " << made.message();
  }
  void make_some_of_each(Program& ending) {
    make(ending, abi::Command::kCreateQp, ending.rc_qp(pd, cq));
    make(ending, abi::Command::kCreateSrq, srq());
    make(ending, abi::Command::kCreateAh, address_handle());
    make(ending, abi::Command::kAllocMw, abi::AllocMwRequest{{}, pd, 1});
    make(ending, abi::Command::kCreateChannel, abi::RequestHeader{});
    make(ending, abi::Command::kAllocDm, abi::AllocDmRequest{{}, sizeof(page), 12, 0});
    const Record wanted = make_record(abi::Command::kRegMr, region(abi::PieceKind::kProcMem));
    EXPECT_EQ(ending.send({wanted.bytes, {}}).header.error, 0);
  }
  void join_a_group(Program& ending) {
    abi::CreateQpRequest datagrams = ending.rc_qp(pd, cq);
    datagrams.type = static_cast<std::uint32_t>(QpType::kUd);
    const Answer made = ending.ask(abi::Command::kCreateQp, datagrams);
    abi::MulticastRequest group{};
    group.handle = made.as<abi::CreateQpReply>().handle;
    std::copy_n(parse_ip("239.1.2.3")->bytes.begin(), 16, group.gid);
    make(ending, abi::Command::kAttachMulticast, group);
  }
  void make_xrc_objects(Program& ending) {
    abi::OpenXrcdRequest open{};
    open.flags = abi::kXrcdCreate;
    const std::uint32_t xrcd =
        ending.ask(abi::Command::kOpenXrcd, open).as<abi::HandleReply>().handle;
    make(ending, abi::Command::kCreateSrq, xrc_srq(xrcd));
    make(ending, abi::Command::kCreateQp, xrc_target(xrcd));
  }
  void register_on_demand(Program& ending) {
    make(ending, abi::Command::kOpenPaging, abi::RequestHeader{});
    abi::RegMrRequest request{};
    request.length = request.address = sizeof(page);
    request.pd = pd;
    request.access = kAccessLocalWrite | kAccessOnDemand;
    make(ending, abi::Command::kRegMr, request);
  }
};

TEST_F(NoMemoryAtTheEndTest, EndingASessionNeedsNoMemory) {
  PagingQueues queues(2, {});
  PagingService paging(queues, rig.quiescence());
  rig.services.paging = &paging;
  auto ending = std::make_unique<Program>(rig);
  ending->open();
  ASSERT_EQ(ending->make_pd(), pd);
  ASSERT_EQ(ending->make_cq(), cq);
  for (int i = 0; i < 3; ++i) {
    make_some_of_each(*ending);
    join_a_group(*ending);
  }
  make_xrc_objects(*ending);
  make(*ending, abi::Command::kOpenPaging, abi::RequestHeader{});  // which is then replaced
  register_on_demand(*ending);
  make(*ending, abi::Command::kCapture, abi::CaptureRequest{{}, abi::kCaptureRingMin, 64, 0});
  until_failure = kMany;
  ending.reset();
  EXPECT_EQ(std::exchange(until_failure, -1), kMany) << "nothing was allocated";
  rig.services.paging = nullptr;
}

// A program that uses librdmacm, as listener and as the one that connects.
struct CmSide {
  explicit CmSide(Rig& rig)
      : program(rig), listening(program.open_channel()), asking(program.open_channel()) {}

  void listen(std::uint16_t port, std::uint16_t space, std::uint8_t qp_type) {
    const std::uint32_t id = program.create_id(listening, 1, space, qp_type);
    EXPECT_EQ(program.bind(listening, id, "10.0.0.1", port).error, 0);
    EXPECT_EQ(program.listen(listening, id).error, 0);
  }
  // Connects to a port, as a queue pair of this number.
  std::uint32_t ask(std::uint16_t port, std::uint16_t space, std::uint8_t qp_type,
                    std::uint32_t qpn) {
    const std::uint32_t id = program.create_id(asking, 2, space, qp_type);
    EXPECT_EQ(program.resolve(asking, id, "10.0.0.1", port).error, 0);
    program.expect_event(asking, EventNumber::kAddrResolved);
    EXPECT_EQ(program.resolve_route(asking, id).error, 0);
    program.expect_event(asking, EventNumber::kRouteResolved);
    EXPECT_EQ(program.connect(asking, id, qpn).error, 0);
    return id;
  }
  void accept(std::uint32_t qpn) {
    const std::uint32_t id = program.expect_event(listening, EventNumber::kConnectRequest).id;
    EXPECT_EQ(program.accept(listening, id, 3, qpn).error, 0);
  }
  void establish(std::uint32_t id) {
    program.expect_event(asking, EventNumber::kConnectResponse);
    EXPECT_EQ(program.establish(asking, id).error, 0);
  }
  void join() {
    rdma_ucm_join_ip_mcast body{};
    body.id = program.create_id(asking, 4, RDMA_PS_UDP, IBV_QPT_UD);
    body.addr = CmProgram::socket_address("239.1.2.3", 0);
    EXPECT_EQ(program.bind(asking, body.id, "10.0.0.1", 0).error, 0);
    EXPECT_EQ(program.command(asking, RDMA_USER_CM_CMD_JOIN_IP_MCAST, body).error, 0);
  }

  CmProgram program;
  ProgramChannel listening, asking;
};

class EndingConnectionsTest : public NoMemoryTest {
 protected:
  static constexpr std::uint16_t kEnding = cm_user::kPort, kOther = cm_user::kPort + 1;
  static constexpr std::uint16_t kDatagrams = 100;  // added to these ports

  // Connections from and to the ending program, in every state in which a peer has to be told.
  void connect(CmSide& ending, CmSide& other) {
    for (CmSide* const side : {&ending, &other}) {
      const std::uint16_t port = side == &ending ? kEnding : kOther;
      side->listen(port, RDMA_PS_TCP, IBV_QPT_RC);
      side->listen(port + kDatagrams, RDMA_PS_UDP, IBV_QPT_UD);
    }
    const std::uint32_t active = ending.ask(kOther, RDMA_PS_TCP, IBV_QPT_RC, 100);
    other.accept(101);
    ending.establish(active);
    const std::uint32_t replied = ending.ask(kOther, RDMA_PS_TCP, IBV_QPT_RC, 102);
    EXPECT_NE(replied, active);
    const std::uint32_t passive = other.ask(kEnding, RDMA_PS_TCP, IBV_QPT_RC, 103);
    ending.program.expect_event(ending.listening, EventNumber::kConnectRequest);
    EXPECT_NE(passive, 0U);
    for (std::uint32_t qpn = 110; qpn < 114; ++qpn) {
      (void)other.ask(kEnding, RDMA_PS_TCP, IBV_QPT_RC, qpn);
      (void)other.ask(kEnding + kDatagrams, RDMA_PS_UDP, IBV_QPT_UD, qpn + 10);
      (void)ending.ask(kOther + kDatagrams, RDMA_PS_UDP, IBV_QPT_UD, qpn + 20);
    }
    ending.join();
  }

  // Advances time until no timer is pending.
  void pass_time() {
    while (rig.connections.next_deadline() != kNever) {
      rig.now = std::max(rig.now, rig.connections.next_deadline());
      rig.connections.on_time();
    }
  }

  enum class End : std::uint8_t { kNeedsMore, kUnhindered, kLeftSomething };

  // In a child process: `failing` allocations succeed, and none after them.
  End end_with(int failing) {
    auto other = std::make_unique<CmSide>(rig);
    auto ending = std::make_unique<CmSide>(rig);
    connect(*ending, *other);
    until_failure = failing;
    fails_for_good = true;
    ending.reset();
    fails_for_good = false;
    const bool unhindered = std::exchange(until_failure, -1) > 0;
    pass_time();
    other.reset();
    pass_time();
    const bool clean =
        rig.connections.ids() == 0 && rig.connections.manager().connections().empty() &&
        rig.connections.ports().ports_taken(cm::PortSpace::kTcp) == 0 &&
        rig.card.devices()[0].groups().all().empty() && !::testing::Test::HasFailure();
    return !clean ? End::kLeftSomething : unhindered ? End::kUnhindered : End::kNeedsMore;
  }
};

TEST_F(EndingConnectionsTest, AProgramsConnectionsEndWhateverMemoryThereIs) {
  int failing = 0;
  for (End end = End::kNeedsMore; end != End::kUnhindered; ++failing) {
    ASSERT_LT(failing, 10 * kAllocationsMax);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(static_cast<int>(end_with(failing)));
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status))
        << "signal " << WTERMSIG(status) << " where allocation " << failing << " fails";
    end = static_cast<End>(WEXITSTATUS(status));
    ASSERT_NE(end, End::kLeftSomething) << "allocation " << failing << " failed";
  }
  EXPECT_GT(failing, 1) << "it notifies peers, which needs memory";
}

}  // namespace
}  // namespace uroce::control
