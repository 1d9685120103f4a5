// The capabilities that the shim reports, and calls that depend on them.

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class Query : public VerbsFixture {
 protected:
  ibv_device_attr_ex attributes() {
    ibv_device_attr_ex attr{};
    EXPECT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
    return attr;
  }
  ibv_qp* make_datagram_qp(std::uint32_t create_flags) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
    attr.qp_type = IBV_QPT_UD;
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.create_flags = create_flags;
    return ibv_create_qp_ex(context, &attr);
  }
};

// Not atomic with the program's processor if its memory is reached through /proc/PID/mem.
TEST_F(Query, AtomicsAreAtomicWithinTheDevice) {
  EXPECT_EQ(attributes().orig_attr.atomic_cap, IBV_ATOMIC_HCA);
  ibv_device_attr plain{};
  ASSERT_EQ(ibv_query_device(context, &plain), 0);
  EXPECT_EQ(plain.atomic_cap, IBV_ATOMIC_HCA);
}

TEST_F(Query, SharedReceiveQueuesCanBeResized) {
  EXPECT_NE(attributes().orig_attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0U);
}

TEST_F(Query, EveryAddressNeedsAGrh) {
  ibv_port_attr attr{};
  ASSERT_EQ(___ibv_query_port(context, 1, &attr), 0);
  EXPECT_EQ(attr.flags, IBV_QPF_GRH_REQUIRED);
}

TEST_F(Query, CompletionQueuesAreModeratedUpToTheReportedLimits) {
  const ibv_cq_moderation_caps caps = attributes().cq_mod_caps;
  EXPECT_EQ(caps.max_cq_count, 65'535);
  EXPECT_EQ(caps.max_cq_period, 65'535);
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {.cq_count = caps.max_cq_count, .cq_period = caps.max_cq_period};
  EXPECT_EQ(ibv_modify_cq(cq, &attr), 0);
}

// A peer's program may use vendor options; connections can be made without them.
TEST_F(Query, ThereAreNoVendorOptions) {
  ibv_ece ece{.vendor_id = 1, .options = 2, .comp_mask = 3};
  EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(ece.vendor_id, 0U);
  EXPECT_EQ(ece.options, 0U);
  EXPECT_EQ(ece.comp_mask, 0U);
  for (const std::uint32_t vendor : {0U, 0x15B3U}) {
    ece.vendor_id = vendor;
    errno = 0;
    EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
}

// The structure of programs that were built with older headers ends before its last member.
TEST_F(Query, NothingIsWrittenBehindAnOlderProgramsAttributes) {
  ibv_qp_attr attr{};
  attr.rate_limit = 4'242;
  attr.timeout = 14;
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.timeout, 0);
  EXPECT_EQ(attr.rate_limit, 4'242U);
}

// Other programs may have changed the state of a queue pair that this one opens.
TEST_F(Query, TheStateOfAnOpenedQueuePairIsUnknown) {
  ibv_xrcd* const xrcd = open_xrc_domain();
  ASSERT_NE(xrcd, nullptr);
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.xrcd = xrcd;
  attr.qp_num = FakeDaemon::kQpn;
  attr.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* const opened = ibv_open_qp(context, &attr);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->state, IBV_QPS_UNKNOWN);
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

TEST_F(Query, ADatagramQueuePairMayBlockItsOwnMulticast) {
  ibv_qp* blocking = make_datagram_qp(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
  ASSERT_NE(blocking, nullptr);
  EXPECT_EQ(ibv_destroy_qp(blocking), 0);
  errno = 0;
  EXPECT_EQ(make_datagram_qp(IBV_QP_CREATE_SOURCE_QPN), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// A completion's `sl` holds the kind of header (UCX reads it); a reply isn't sent with that as its
// service level.
TEST_F(Query, AReplysServiceLevelIsNotTheKindOfHeader) {
  ibv_wc wc{};
  wc.sl = abi::kSlRoceIpv4;
  ibv_ah_attr attr{};
  attr.sl = 7;
  ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, nullptr, &attr), 0);
  EXPECT_EQ(attr.sl, 0);
}

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// libvma and DPDK compare tv_nsec alone with completions' timestamps.
TEST_F(Query, TheRawClockIsInNanosecondsOnly) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  const std::int64_t before = monotonic_ns();
  ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  EXPECT_EQ(values.comp_mask, std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
  EXPECT_EQ(values.raw_clock.tv_sec, 0);
  EXPECT_GE(values.raw_clock.tv_nsec, before);
  EXPECT_LE(values.raw_clock.tv_nsec, monotonic_ns());
}

TEST_F(Query, ThatTheDeviceIsLostIsntTakenForAnEmptyTable) {
  daemon.die();
  __be16 key = 0;
  EXPECT_EQ(ibv_query_pkey(context, 1, 0, &key), -1);
  EXPECT_EQ(errno, ENODEV);
  errno = 0;
  EXPECT_EQ(ibv_get_pkey_index(context, 1, 0xFFFF), -1);
  EXPECT_EQ(errno, ENODEV);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_table(context, &entry, 1, 0), -ENODEV);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_grh grh{};
  ibv_ah_attr attr{};
  EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(Query, AProgramNeedntAskForTheVlan) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  std::uint8_t mac[6];
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(context, &attr, mac, nullptr), 0);
}

// Whether a queue pair of this type can be made for these operations.
bool can_be_made(ibv_pd* pd, ibv_cq* cq, ibv_qp_type type, std::uint64_t operations) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = type;
  attr.pd = pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = operations;
  ibv_qp* const made = ibv_create_qp_ex(pd->context, &attr);
  return made != nullptr && ibv_destroy_qp(made) == 0;
}

TEST_F(Query, AQueuePairIsntMadeForWhatItsTypeCantDo) {
  EXPECT_TRUE(can_be_made(pd, cq, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ));
  EXPECT_TRUE(can_be_made(pd, cq, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE));
  EXPECT_TRUE(can_be_made(pd, cq, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM));
  errno = 0;
  EXPECT_FALSE(can_be_made(pd, cq, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE));
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_FALSE(can_be_made(pd, cq, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ));
  EXPECT_FALSE(can_be_made(pd, cq, IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_ATOMIC_WRITE));
}

}  // namespace
}  // namespace uroce::test
