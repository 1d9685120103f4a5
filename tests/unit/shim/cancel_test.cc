// Verbs aren't cancellation points: a cancelled thread ends after the call, not inside it with a
// lock held.

#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"
#include "tests/unit/shim/on_cancelled_thread.h"
#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

class Cancel : public VerbsFixture {};

TEST_F(Cancel, TakesEffectAfterWakingAWorker) {
  daemon.status().asleep.store(1);
  ASSERT_TRUE(on_cancelled_thread([this] {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }));
  EXPECT_EQ(daemon.wakes(), 1U);
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

TEST_F(Cancel, TakesEffectAfterTheDaemonsAnswer) {
  ASSERT_TRUE(on_cancelled_thread([this] {
    ibv_device_attr attributes{};
    EXPECT_EQ(ibv_query_device(context, &attributes), 0);
  }));
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(context, &attributes), 0);
}

TEST_F(Cancel, TakesEffectAfterRegisteringMemory) {
  constexpr std::size_t kBytes = 64 << 10;
  std::byte* const memory = static_cast<std::byte*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ibv_mr* mr = nullptr;
  ASSERT_TRUE(on_cancelled_thread([&] {
    mr = ibv_reg_mr(pd, memory, kBytes / 2, IBV_ACCESS_LOCAL_WRITE);
    EXPECT_NE(mr, nullptr);
  }));
  ASSERT_TRUE(on_cancelled_thread([&] {
    EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory + kBytes / 2,
                           kBytes / 2, 0),
              0);
  }));
  ibv_mr* const later = ibv_reg_mr(pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(ibv_dereg_mr(later), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, kBytes);
}

TEST_F(Cancel, TakesEffectAfterRegisteringAFile) {
  constexpr std::size_t kBytes = 64 << 10;
  const UniqueFd file(memfd_create("cancel", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  ibv_mr* mr = nullptr;
  ASSERT_TRUE(on_cancelled_thread([&] {
    mr = ibv_reg_dmabuf_mr(pd, 0, kBytes, 0, file.get(), IBV_ACCESS_LOCAL_WRITE);
    EXPECT_NE(mr, nullptr);
  }));
  ibv_mr* const later = ibv_reg_dmabuf_mr(pd, 0, kBytes, 0, file.get(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(ibv_dereg_mr(later), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Cancel, TakesEffectAfterResizingACompletionQueue) {
  ASSERT_TRUE(on_cancelled_thread([&] { EXPECT_EQ(ibv_resize_cq(cq, FakeDaemon::kEntries), 0); }));
  EXPECT_EQ(ibv_resize_cq(cq, FakeDaemon::kEntries), 0);
}

TEST_F(Cancel, TakesEffectAfterResizingASharedReceiveQueue) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = FakeDaemon::kEntries, .max_sge = FakeDaemon::kSgeMax, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr attr = init.attr;
  ASSERT_TRUE(
      on_cancelled_thread([&] { EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0); }));
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Cancel, TakesEffectAfterLibrdmacmGetsItsChannel) {
  int first = -1;
  ASSERT_TRUE(on_cancelled_thread([&] { first = shim::open_cm_channel(); }));
  ASSERT_GE(first, 0);
  const int later = shim::open_cm_channel();
  EXPECT_GE(later, 0);
  EXPECT_EQ(shim::close_cm_channel(later), 0);
  EXPECT_EQ(shim::close_cm_channel(first), 0);
}

// Descriptors are closed while and after the objects go away.
TEST_F(Cancel, TakesEffectAfterDestroyingAChannelAndADevice) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* const fresh = ibv_open_device(list[0]);
  ibv_comp_channel* const events = ibv_create_comp_channel(fresh);
  ASSERT_NE(events, nullptr);
  EXPECT_TRUE(on_cancelled_thread([&] { EXPECT_EQ(ibv_destroy_comp_channel(events), 0); }));
  EXPECT_TRUE(on_cancelled_thread([&] { EXPECT_EQ(ibv_close_device(fresh), 0); }));
  ibv_free_device_list(list);
  const int cm_channel = shim::open_cm_channel();
  EXPECT_TRUE(on_cancelled_thread([&] { EXPECT_EQ(shim::close_cm_channel(cm_channel), 0); }));
}

// What the thread was making isn't left behind: each call returns its object.
class CancelWhileMaking : public Cancel {
 protected:
  template <typename Make>
  auto made(Make make) {
    decltype(make()) object = nullptr;
    EXPECT_TRUE(on_cancelled_thread([&] { object = make(); }));
    EXPECT_NE(object, nullptr);
    return object;
  }
};

TEST_F(CancelWhileMaking, ADevice) {
  ibv_device** const list = made([] { return ibv_get_device_list(nullptr); });
  ASSERT_NE(list[0], nullptr);
  EXPECT_EQ(ibv_close_device(made([&] { return ibv_open_device(list[0]); })), 0);
  ibv_free_device_list(list);
}

TEST_F(CancelWhileMaking, Queues) {
  ibv_comp_channel* const events = made([&] { return ibv_create_comp_channel(context); });
  ibv_cq* const queue = made([&] { return ibv_create_cq(context, 4, nullptr, events, 0); });
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(events), 0);
  ibv_srq_init_attr shared{};
  shared.attr = {.max_wr = FakeDaemon::kEntries, .max_sge = FakeDaemon::kSgeMax, .srq_limit = 0};
  EXPECT_EQ(ibv_destroy_srq(made([&] { return ibv_create_srq(pd, &shared); })), 0);
}

TEST_F(CancelWhileMaking, AQueuePair) {
  daemon.make_rings_of_one();  // so that its rings' memory is received with it
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* const fresh = ibv_open_device(list[0]);
  ibv_pd* const domain = ibv_alloc_pd(fresh);
  ibv_cq* const queue = ibv_create_cq(fresh, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = queue;
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_destroy_qp(made([&] { return ibv_create_qp(domain, &attr); })), 0);
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  EXPECT_EQ(ibv_close_device(fresh), 0);
  ibv_free_device_list(list);
}

TEST_F(CancelWhileMaking, DeviceMemory) {
  ibv_alloc_dm_attr attr{.length = 4'096, .log_align_req = 0, .comp_mask = 0};
  EXPECT_EQ(ibv_free_dm(made([&] { return ibv_alloc_dm(context, &attr); })), 0);
  ibv_unimport_dm(made([&] { return ibv_import_dm(context, 0); }));
}

}  // namespace
}  // namespace uroce::test
