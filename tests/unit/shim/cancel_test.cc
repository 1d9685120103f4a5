// Verbs aren't cancellation points: a cancelled thread ends after the call, not inside it with a
// lock held.

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"
#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

class Cancel : public VerbsFixture {
 protected:
  // Runs the work on a thread that was cancelled before. Returns whether the work was completed.
  template <typename Work>
  static bool cancelled(Work work) {
    Order<Work> order{.work = work};
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          pthread_cancel(pthread_self());
          perform(*static_cast<Order<Work>*>(argument));
          pthread_testcancel();
          return nullptr;
        },
        &order);
    void* result = nullptr;
    pthread_join(thread, &result);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    return order.done;
  }

 private:
  template <typename Work>
  struct Order {
    Work work;
    bool done = false;
  };
  // Not inlined: AddressSanitizer reports what a cancelled thread's calls leave on its stack, so
  // the thread must have returned from all of them.
  template <typename Work>
  __attribute__((noinline)) static void perform(Order<Work>& order) {
    order.work();
    order.done = true;
  }
};

TEST_F(Cancel, TakesEffectAfterWakingAWorker) {
  daemon.status().asleep.store(1);
  ASSERT_TRUE(cancelled([this] {
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
  ASSERT_TRUE(cancelled([this] {
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
  ASSERT_TRUE(cancelled([&] {
    mr = ibv_reg_mr(pd, memory, kBytes / 2, IBV_ACCESS_LOCAL_WRITE);
    EXPECT_NE(mr, nullptr);
  }));
  ASSERT_TRUE(cancelled([&] {
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
  ASSERT_TRUE(cancelled([&] {
    mr = ibv_reg_dmabuf_mr(pd, 0, kBytes, 0, file.get(), IBV_ACCESS_LOCAL_WRITE);
    EXPECT_NE(mr, nullptr);
  }));
  ibv_mr* const later = ibv_reg_dmabuf_mr(pd, 0, kBytes, 0, file.get(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(ibv_dereg_mr(later), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Cancel, TakesEffectAfterResizingACompletionQueue) {
  ASSERT_TRUE(cancelled([&] { EXPECT_EQ(ibv_resize_cq(cq, FakeDaemon::kEntries), 0); }));
  EXPECT_EQ(ibv_resize_cq(cq, FakeDaemon::kEntries), 0);
}

TEST_F(Cancel, TakesEffectAfterResizingASharedReceiveQueue) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = FakeDaemon::kEntries, .max_sge = FakeDaemon::kSgeMax, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr attr = init.attr;
  ASSERT_TRUE(cancelled([&] { EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0); }));
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Cancel, TakesEffectAfterLibrdmacmGetsItsChannel) {
  int first = -1;
  ASSERT_TRUE(cancelled([&] { first = shim::open_cm_channel(); }));
  ASSERT_GE(first, 0);
  const int later = shim::open_cm_channel();
  EXPECT_GE(later, 0);
  EXPECT_EQ(shim::close_cm_channel(later), 0);
  EXPECT_EQ(shim::close_cm_channel(first), 0);
}

}  // namespace
}  // namespace uroce::test
