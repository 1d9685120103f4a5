#include <cerrno>
#include <cstring>

#include "abi/post_stamp.h"
#include "base/time/monotonic_clock.h"
#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class PostSend : public VerbsFixture {
 protected:
  ibv_send_wr request(std::uint64_t id) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = sges;
    wr.num_sge = 2;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = 0x7000;
    wr.wr.rdma.rkey = 0x99;
    return wr;
  }
  int post(ibv_send_wr& wr) { return ibv_post_send(qp, &wr, &bad); }

  char text[64] = "0123456789abcdef0123456789abcdef";
  ibv_sge sges[3] = {{0x1000, 10, 1}, {0x2000, 20, 2}, {0x3000, 30, 3}};
  ibv_send_wr* bad = nullptr;
};

TEST_F(PostSend, WritesTheRequestAndRings) {
  ibv_send_wr wr = request(7);
  ASSERT_EQ(post(wr), 0);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 1U);
  const abi::SendWr& entry = daemon.send_entry(0);
  EXPECT_EQ(entry.wr_id, 7U);
  EXPECT_EQ(entry.opcode, abi::WrOpcode::kRdmaWrite);
  EXPECT_EQ(entry.flags, abi::kSignaled);
  EXPECT_EQ(entry.payload_count, 2U);
  EXPECT_EQ(entry.remote_address, 0x7000U);
  EXPECT_EQ(entry.rkey, 0x99U);
  const auto* sge = reinterpret_cast<const abi::Sge*>(reinterpret_cast<const std::byte*>(&entry) +
                                                      abi::kSendPayloadOffset);
  EXPECT_EQ(sge[1].address, 0x2000U);
  EXPECT_EQ(sge[1].length, 20U);
  EXPECT_EQ(sge[1].lkey, 2U);
  EXPECT_EQ(daemon.doorbells().top.load(), 1U);
  EXPECT_EQ(daemon.doorbells().words[1].load(), 1ULL << 6U);
  EXPECT_EQ(daemon.wakes(), 0U);
}

TEST_F(PostSend, WakesASleepingWorker) {
  daemon.status().asleep.store(1);
  ibv_send_wr wr = request(1);
  ASSERT_EQ(post(wr), 0);
  EXPECT_EQ(daemon.wakes(), 1U);
}

// The worker may have to wait for a processor. It finds everything posted meanwhile when it runs.
TEST_F(PostSend, WakesAWorkerOnceInASleep) {
  ibv_send_wr wr = request(1);
  daemon.status().asleep.store(1);
  daemon.status().beats.store(41);
  ASSERT_EQ(post(wr), 0);
  ASSERT_EQ(post(wr), 0);
  EXPECT_EQ(daemon.wakes(), 1U);
  daemon.status().beats.store(43);
  ASSERT_EQ(post(wr), 0);
  ASSERT_EQ(post(wr), 0);
  EXPECT_EQ(daemon.wakes(), 1U);
}

TEST_F(PostSend, WakesAWorkerThatIsAboutToSleepEachTime) {
  ibv_send_wr wr = request(1);
  daemon.status().asleep.store(1);
  for (const std::uint64_t beats : {0U, 40U}) {  // 0: it doesn't report beats
    daemon.status().beats.store(beats);
    ASSERT_EQ(post(wr), 0);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(daemon.wakes(), 2U);
  }
}

// The stamps as the daemon sees them (abi/post_stamp.h), and the times around a post.
class StampedPost : public PostSend {
 protected:
  void ask(std::uint32_t number) { abi::request_stamp(daemon.send_ring(), number); }
  abi::PostStamp stamp() { return abi::stamp_of(daemon.send_ring()); }
  // Posts so many in one chain.
  void post_chain(std::uint32_t count) {
    ibv_send_wr wrs[FakeDaemon::kEntries];
    for (std::uint32_t i = 0; i < count; ++i) {
      wrs[i] = request(i);
      wrs[i].next = i + 1 == count ? nullptr : &wrs[i + 1];
    }
    before = monotonic_now();
    ASSERT_EQ(post(wrs[0]), 0);
    after = monotonic_now();
  }
  void expect_stamped(std::uint32_t number, std::uint32_t index) {
    EXPECT_EQ(stamp().number, number);
    EXPECT_EQ(stamp().index, index);
    EXPECT_GE(stamp().time_ns, before);
    EXPECT_LE(stamp().time_ns, after);
  }
  Time before = 0, after = 0;
};

TEST_F(StampedPost, NoneUnlessAsked) {
  post_chain(1);
  EXPECT_EQ(stamp().time_ns, 0U);
  EXPECT_EQ(stamp().number, 0U);
}

TEST_F(StampedPost, AnswersOnce) {
  ask(5);
  post_chain(1);
  expect_stamped(5, 0);
  const std::uint64_t first = stamp().time_ns;
  post_chain(1);
  EXPECT_EQ(stamp().time_ns, first);
  EXPECT_EQ(stamp().index, 0U);
  ask(6);
  post_chain(1);
  expect_stamped(6, 2);
}

TEST_F(StampedPost, MovesWithinAChain) {
  ask(4);
  post_chain(2);
  expect_stamped(4, 0);
  ask(5);
  post_chain(2);
  expect_stamped(5, 3);
}

TEST_F(StampedPost, OfBatches) {
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  ask(5);
  before = monotonic_now();
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_abort(extended);
  EXPECT_EQ(stamp().number, 0U) << "nothing was posted";
  ibv_wr_start(extended);
  for (int i = 0; i < 3; ++i) {
    ibv_wr_send(extended);
    ibv_wr_set_sge(extended, 1, 2, 3);
  }
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  after = monotonic_now();
  expect_stamped(5, 2);
}

TEST_F(PostSend, CopiesInlineBytes) {
  ibv_sge list[2] = {{reinterpret_cast<std::uintptr_t>(text), 3, 0},
                     {reinterpret_cast<std::uintptr_t>(text) + 10, 5, 0}};
  ibv_send_wr wr = request(1);
  wr.sg_list = list;
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post(wr), 0);
  std::memset(text, 'x', sizeof(text));
  const abi::SendWr& entry = daemon.send_entry(0);
  EXPECT_EQ(entry.payload_count, 8U);
  EXPECT_NE(entry.flags & abi::kInline, 0);
  EXPECT_EQ(
      std::memcmp(reinterpret_cast<const char*>(&entry) + abi::kSendPayloadOffset, "012abcde", 8),
      0);
}

TEST_F(PostSend, RefusesUnfitRequestsAndPointsToThem) {
  ibv_send_wr good = request(1);
  ibv_send_wr wide = request(2);
  wide.num_sge = 3;
  good.next = &wide;
  EXPECT_EQ(post(good), EINVAL);
  EXPECT_EQ(bad, &wide);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 1U);  // the first one was posted

  ibv_sge list{reinterpret_cast<std::uintptr_t>(text), FakeDaemon::kInlineMax + 1, 0};
  ibv_send_wr wr = request(3);
  wr.sg_list = &list;
  wr.num_sge = 1;
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(wr), EINVAL);
  wr = request(4);
  wr.opcode = IBV_WR_TSO;
  EXPECT_EQ(post(wr), EINVAL);
  wr = request(5);
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(wr), EINVAL);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 1U);
}

TEST_F(PostSend, IsFullUntilTheDaemonHasReadTheRing) {
  ibv_send_wr wr = request(1);
  for (std::uint32_t i = 0; i < FakeDaemon::kEntries; ++i) {
    ASSERT_EQ(post(wr), 0);
  }
  EXPECT_EQ(post(wr), ENOMEM);
  EXPECT_EQ(bad, &wr);
  daemon.send_ring().consumer.value.store(1);
  EXPECT_EQ(post(wr), 0);
  EXPECT_EQ(post(wr), ENOMEM);
}

TEST_F(PostSend, NeedsAStateThatSends) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ibv_send_wr wr = request(1);
  EXPECT_EQ(post(wr), EINVAL);
}

TEST_F(PostSend, PostsReceives) {
  ibv_recv_wr second{.wr_id = 12, .next = nullptr, .sg_list = nullptr, .num_sge = 0};
  ibv_recv_wr first{.wr_id = 11, .next = &second, .sg_list = sges, .num_sge = 2};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &first, &bad_receive), 0);
  EXPECT_EQ(daemon.recv_ring().producer.value.load(), 2U);
  EXPECT_EQ(daemon.recv_entry(0).wr_id, 11U);
  EXPECT_EQ(daemon.recv_entry(0).sge_count, 2U);
  EXPECT_EQ(daemon.recv_entry(1).wr_id, 12U);
  first.next = nullptr;
  first.num_sge = 3;
  EXPECT_EQ(ibv_post_recv(qp, &first, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &first);
}

TEST_F(PostSend, RingsForReceivesIfTheWorkerWantsIt) {
  ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = sges, .num_sge = 1};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad_receive), 0);
  EXPECT_EQ(daemon.doorbells().top.load(), 0U);
  daemon.recv_ring().producer.doorbell_wanted.store(1);
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad_receive), 0);
  EXPECT_EQ(daemon.doorbells().top.load(), 1U);
}

TEST_F(PostSend, BuildsBatches) {
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  ASSERT_NE(extended, nullptr);
  ibv_wr_start(extended);
  extended->wr_id = 21;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(extended, 0x77, 0x8000);
  ibv_wr_set_sge(extended, 5, 0x4000, 40);
  extended->wr_id = 22;
  ibv_wr_send(extended);
  ibv_wr_set_inline_data(extended, text, 4);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 0U);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 2U);
  EXPECT_EQ(daemon.send_entry(0).rkey, 0x77U);
  EXPECT_EQ(daemon.send_entry(0).payload_count, 1U);
  EXPECT_EQ(daemon.send_entry(1).wr_id, 22U);
  EXPECT_EQ(daemon.send_entry(1).flags, abi::kSignaled | abi::kInline);
  EXPECT_EQ(daemon.send_entry(1).payload_count, 4U);
}

// The last payload set is used, whichever call sets it.
TEST_F(PostSend, ASecondPayloadReplacesTheFirst) {
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_set_inline_data(extended, text, 4);
  ibv_wr_set_sge(extended, 5, 0x4000, 40);
  ibv_wr_send(extended);
  ibv_wr_set_sge(extended, 5, 0x4000, 40);
  ibv_wr_set_inline_data(extended, text, 4);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  EXPECT_EQ(daemon.send_entry(0).flags & abi::kInline, 0);
  EXPECT_EQ(daemon.send_entry(0).payload_count, 1U);
  EXPECT_EQ(daemon.send_entry(1).flags & abi::kInline, abi::kInline);
  EXPECT_EQ(daemon.send_entry(1).payload_count, 4U);
}

TEST_F(PostSend, DropsAFailedOrAbortedBatch) {
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_set_sge_list(extended, 3, sges);
  EXPECT_EQ(ibv_wr_complete(extended), EINVAL);
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_abort(extended);
  ibv_wr_start(extended);
  EXPECT_EQ(ibv_wr_complete(extended), 0);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 0U);
  ibv_wr_start(extended);
  for (std::uint32_t i = 0; i <= FakeDaemon::kEntries; ++i) {
    ibv_wr_send(extended);
    ibv_wr_set_sge(extended, 1, 2, 3);
  }
  EXPECT_EQ(ibv_wr_complete(extended), ENOMEM);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 0U);
}

}  // namespace
}  // namespace uroce::test
