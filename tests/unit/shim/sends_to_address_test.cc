// ibv_destroy_ah waits for what was posted with the address handle.

#include "base/time/monotonic_clock.h"
#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

// sends_to_address.cc's kPatience, without progress.
constexpr Duration kPatience = 250 * kNanosecondsPerMillisecond;
constexpr int kTriesMax = 20;  // of a call that may find no processor

class SendsToAddress : public VerbsFixture {
 protected:
  void SetUp() override {
    VerbsFixture::SetUp();
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    make_qp(IBV_QPT_UD);
  }
  ibv_ah* address(std::uint32_t handle) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    ibv_ah* const made = ibv_create_ah(pd, &attr);
    made->handle = handle;
    return made;
  }
  void post_to(ibv_ah* ah) {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
  static Duration destroyed_in(ibv_ah* ah) {
    const Time start = monotonic_now();
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    return monotonic_now() - start;
  }
};

TEST_F(SendsToAddress, IsWaitedForAsLongAsItMayBeSent) {
  ibv_ah* const ah = address(7);
  post_to(ah);
  EXPECT_GE(destroyed_in(ah), kPatience);
}

TEST_F(SendsToAddress, WhatIsSentIsntWaitedFor) {
  for (int tries = 1;; ++tries) {
    ibv_ah* const ah = address(7);
    post_to(ah);
    daemon.send_ring().consumer.value.store(daemon.send_ring().producer.value.load());
    if (destroyed_in(ah) < kPatience) {
      break;
    }
    ASSERT_LT(tries, kTriesMax);
  }
}

TEST_F(SendsToAddress, OthersAreNotWaitedFor) {
  ibv_ah* const other = address(8);
  post_to(other);
  for (int tries = 1; destroyed_in(address(7)) >= kPatience; ++tries) {
    ASSERT_LT(tries, kTriesMax);
  }
  daemon.send_ring().consumer.value.store(1);
  EXPECT_EQ(ibv_destroy_ah(other), 0);
}

}  // namespace
}  // namespace uroce::test
