// Effects of a fork: the parent is unaffected, and the child neither hangs nor takes what belongs
// to its parent.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/device/devices.h"
#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::test {
namespace {

// Runs the work in a forked child: 0, or the number of the check that failed. A child that hangs is
// killed by a signal.
template <typename Work>
int in_child(Work work) {
  constexpr unsigned kTimeoutSeconds = 20;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kTimeoutSeconds);
    _exit(work());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

class Fork : public VerbsFixture {};

// Which one thread at a time asks for.
TEST_F(Fork, AChildListsDevicesAlsoIfItsParentWaitsForThem) {
  const auto count_devices = [] {
    int count = -1;
    ibv_free_device_list(ibv_get_device_list(&count));
    return count;
  };
  daemon.hold(abi::Command::kListDevices);
  std::thread waiting([&] { EXPECT_EQ(count_devices(), 1); });
  daemon.await_held();
  const FakeDaemon next;
  EXPECT_EQ(in_child([&] { return count_devices() == 1 ? 0 : 1; }), 0);
  daemon.release();
  waiting.join();
}

TEST_F(Fork, AChildLeavesItsParentsCompletions) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  ibv_cq_ex* extended = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(extended, nullptr);
  abi::Cqe cqe{};
  cqe.wr_id = 100;
  daemon.complete(cqe);
  ibv_wc wc{};
  ibv_poll_cq_attr start{};
  EXPECT_EQ(
      in_child([&] {
        return ibv_poll_cq(cq, 1, &wc) != -1 ? 1 : ibv_start_poll(extended, &start) != EIO ? 2 : 0;
      }),
      0);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 0U);
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 100U);
  // Nor does it return an entry that its parent is just reading.
  daemon.cq().ring.consumer.value.store(0);
  ASSERT_EQ(ibv_start_poll(extended, &start), 0);
  EXPECT_EQ(in_child([&] {
              ibv_end_poll(extended);
              return 0;
            }),
            0);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 0U);
  ibv_end_poll(extended);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 1U);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

TEST_F(Fork, LocksThatTheParentHoldsAreFreeInTheChild) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(extended);  // holds the queue's lock
  pthread_mutex_lock(&context->mutex);
  EXPECT_EQ(in_child([&] {
              ibv_send_wr wr{};
              ibv_send_wr* bad = nullptr;
              return ibv_post_send(qp, &wr, &bad) != EIO          ? 1
                     : ibv_query_device(context, &device) != 0    ? 2
                     : ibv_destroy_comp_channel(channel) != EBUSY ? 3
                                                                  : 0;
            }),
            0);
  pthread_mutex_unlock(&context->mutex);
  ibv_wr_abort(extended);
}

// Each lock is held for much of the time.
TEST_F(Fork, LocksOfOtherThreadsAreFreeInTheChild) {
  std::atomic<bool> stop{false};
  shim::Registry& registry = shim::of(context)->registry;
  std::thread registers([&] {
    while (!stop) {
      registry.remove(registry.add(shim::Registry::Kind::kCq, shim::of(cq)));
    }
  });
  std::thread lists([&] {
    while (!stop) {
      shim::lock_device_list();
      shim::unlock_device_list();
    }
  });
  std::thread hooks([&] {
    while (!stop) {
      shim::hook_librdmacm();
      sched_yield();  // otherwise the forking thread hardly ever gets the lock
    }
  });
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(in_child([&] {
                registry.remove(registry.add(shim::Registry::Kind::kCq, shim::of(cq)));
                shim::lock_device_list();
                shim::unlock_device_list();
                shim::hook_librdmacm();
                return 0;
              }),
              0);
  }
  stop = true;
  registers.join();
  lists.join();
  hooks.join();
}

// What the parent registered isn't charged to the child, so deregistering it there credits nothing.
TEST_F(Fork, AChildCountsItsOwnLockedMemory) {
  static std::array<std::byte, 64 << 10> memory;
  ibv_mr* inherited = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(inherited, nullptr);
  EXPECT_EQ(in_child([&] {
              ibv_device** list = ibv_get_device_list(nullptr);
              ibv_context* own = ibv_open_device(list[0]);
              ibv_pd* own_pd = own != nullptr ? ibv_alloc_pd(own) : nullptr;
              const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
              constexpr uid_t kNobody = 65'534;
              if (own_pd == nullptr || setrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
                  (geteuid() == 0 && setuid(kNobody) != 0)) {
                return 1;
              }
              if (ibv_dereg_mr(inherited) != 0) {
                return 2;
              }
              return ibv_reg_mr(own_pd, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE) == nullptr ? 3
                                                                                                : 0;
            }),
            0);
  EXPECT_EQ(ibv_dereg_mr(inherited), 0);
}

// Nor is it charged for what is refused, because the context is its parent's.
TEST_F(Fork, ARefusedRegistrationLeavesNothingCharged) {
  static std::array<std::byte, 64 << 10> memory;
  ibv_mr* inherited = ibv_reg_mr(pd, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(inherited, nullptr);
  EXPECT_EQ(in_child([&] {
              ibv_device** list = ibv_get_device_list(nullptr);
              ibv_context* own = ibv_open_device(list[0]);
              ibv_pd* own_pd = own != nullptr ? ibv_alloc_pd(own) : nullptr;
              const rlimit limit{.rlim_cur = 96 << 10, .rlim_max = 96 << 10};
              constexpr uid_t kNobody = 65'534;
              if (own_pd == nullptr || setrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
                  (geteuid() == 0 && setuid(kNobody) != 0)) {
                return 1;
              }
              if (ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE) != nullptr ||
                  errno != ENODEV) {
                return 2;
              }
              if (ibv_rereg_mr(inherited, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(),
                               memory.size(), 0) != IBV_REREG_MR_ERR_CMD ||
                  errno != ENODEV) {
                return 3;
              }
              return ibv_reg_mr(own_pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE) ==
                             nullptr
                         ? 4
                         : 0;
            }),
            0);
  EXPECT_EQ(ibv_dereg_mr(inherited), 0);
}

bool find_heap(shim::MappedArea* heap) {
  shim::MemoryMap map;
  for (std::uint64_t at = 0; heap->name() != "[heap]"; at = heap->end) {
    if (!map.at_or_above(at, heap)) {
      return false;
    }
  }
  return true;
}

// The program's connection for librdmacm is kept in memory that is registered. A child must not
// mark its parent's as lost, whatever the program called first. 0, or the number of the check that
// failed.
int fork_with_cm_channel() {
  FakeDaemon daemon;
  const int channel = shim::open_cm_channel();
  if (channel < 0) {
    return 1;
  }
  shim::MappedArea heap;
  if (!find_heap(&heap)) {
    return 2;
  }
  if (!shim::describe_memory(heap.start, heap.end - heap.start, IBV_ACCESS_LOCAL_WRITE)) {
    return 3;
  }
  if (in_child([] { return 0; }) != 0) {
    return 4;
  }
  const std::array<std::uint32_t, 2> command{};
  return shim::write_cm_command(channel, command.data(), sizeof(command)) == sizeof(command) ? 0
                                                                                             : 5;
}

TEST(ForkDeathTest, AChildLeavesTheConnectionForLibrdmacm) {
  shim::MappedArea heap;
  if (!find_heap(&heap)) {
    GTEST_SKIP() << "a sanitizer's malloc has no [heap]";
  }
  // In a process of its own: fork handlers are installed once.
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(_exit(fork_with_cm_channel()), testing::ExitedWithCode(0), "");
}

// What the child does with its copy doesn't reach the daemon, and it may have a channel of its own.
// (An answer to the command that closes a channel would never come.)
TEST_F(Fork, AChildClosesItsParentsChannelForLibrdmacmAndOpensItsOwn) {
  const int inherited = shim::open_cm_channel();
  ASSERT_GE(inherited, 0);
  const std::array<std::uint32_t, 2> command{};
  const auto works = [&command](int descriptor) {
    return shim::write_cm_command(descriptor, command.data(), sizeof(command)) == sizeof(command);
  };
  daemon.hold(abi::Command::kCmCloseChannel);
  for (const bool closes_first : {true, false}) {
    EXPECT_EQ(in_child([&] {
                if (works(inherited) || errno != ENODEV) {
                  return 1;
                }
                if (closes_first && shim::close_cm_channel(inherited) != 0) {
                  return 2;
                }
                const int own = shim::open_cm_channel();
                if (own < 0 || !works(own)) {
                  return 3;
                }
                if (!closes_first && (works(inherited) || errno != ENODEV ||
                                      shim::close_cm_channel(inherited) != 0)) {
                  return 4;
                }
                return works(own) && shim::is_cm_channel(own) ? 0 : 5;
              }),
              0);
    EXPECT_TRUE(works(inherited)) << "in the parent";
  }
  daemon.hold(abi::Command::kCmOpenChannel);  // no longer the one that closes
  EXPECT_EQ(shim::close_cm_channel(inherited), 0);
}

}  // namespace
}  // namespace uroce::test
