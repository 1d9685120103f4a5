// Faults against invalidations against teardown, with real threads: once a page is invalidated,
// nothing may access it until the invalidation ends. Workers detect it if they do.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "tests/unit/mmu/paged_program.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kPages = 64;  // few, so that accesses collide
constexpr std::uint32_t kWorkers = 2;

// A program that answers in the pager's own thread, one turn later.
class Scene {
 public:
  Scene() { program_.pager = &pager_; }

  // A worker: accesses pages at random; if one isn't resident it raises a fault and retries later.
  void work(std::uint32_t index) {
    std::mt19937 random(index);
    quiescence_.online(index);
    std::array<bool, kPages> waiting{};
    while (!stopping_.load(std::memory_order_relaxed)) {
      for (int i = 0; i < 32; ++i) {
        use(random() % kPages, index, &waiting);
      }
      while (PageFault* fault = queue_.next_resumed(index)) {
        waiting[(fault->request.address - kBase) / kPage] = false;
        failures_ += fault->outcome == Access::kGranted ? 0 : 1;
        queue_.give_back(fault);
      }
      quiescence_.quiescent(index);
      std::this_thread::yield();
    }
    quiescence_.offline(index);
  }

  void serve() {
    while (!stopping_.load(std::memory_order_relaxed)) {
      const std::lock_guard lock(pager_mutex_);
      program_.settle();
      std::this_thread::yield();
    }
  }

  // The program: invalidates pages at random, marks them while nothing may access them, and
  // unblocks them.
  void invalidate(std::uint64_t rounds) {
    std::mt19937 random(99);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t page = random() % kPages;
      const bool forget = random() % 2 == 0;
      program_.mirror->invalidate(1, kBase + page * kPage, kBase + (page + 1) * kPage, forget);
      gone_[page].store(true, std::memory_order_relaxed);
      std::this_thread::yield();
      gone_[page].store(false, std::memory_order_relaxed);
      program_.mirror->unblock(1);
      if (round % 16 == 0) {
        program_.mirror->evict(kPage);
      }
      const std::lock_guard lock(pager_mutex_);
      pager_.changed(program_.mirror, program_.now);
    }
  }
  void stop() { stopping_ = true; }

  [[nodiscard]] std::uint64_t touched_gone() const { return touched_gone_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }

 private:
  void use(std::uint64_t page, std::uint32_t index, std::array<bool, kPages>* waiting) {
    Span span;
    if (program_.mirror->find(kBase + page * kPage, 8, true, &span) == Access::kGranted) {
      touched_gone_ += gone_[page].load(std::memory_order_relaxed) ? 1 : 0;
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(span.host)).fetch_add(1);
      ++used_;
      return;
    }
    const FaultRequest request{.address = kBase + page * kPage, .length = 8, .write = true};
    PageFault* fault = (*waiting)[page] ? nullptr : queue_.take(request);
    if (fault != nullptr) {
      (*waiting)[page] = true;
      fault->mirror = program_.mirror;
      fault->worker = index;
      queue_.raise(fault);
    }
  }

  Quiescence quiescence_;
  PagedProgram program_{quiescence_, 1};
  FaultQueue queue_{kWorkers};
  Pager pager_{queue_, program_};
  std::mutex pager_mutex_;  // the simulated program isn't thread-safe
  std::array<std::atomic<bool>, kPages> gone_{};
  std::atomic<std::uint64_t> touched_gone_{0}, used_{0}, failures_{0};
  std::atomic<bool> stopping_{false};
};

TEST(PagingStress, NoWorkerAccessesInvalidatedPages) {
  const char* const rounds = std::getenv("UROCE_PAGING_ROUNDS");
  Scene scene;
  std::vector<std::thread> threads;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&scene, worker] { scene.work(worker); });
  }
  threads.emplace_back([&scene] { scene.serve(); });
  while (scene.used() == 0) {  // threads take a while to start
    std::this_thread::yield();
  }
  scene.invalidate(rounds == nullptr ? 300 : std::strtoull(rounds, nullptr, 10));
  scene.stop();
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(scene.touched_gone(), 0U);
  EXPECT_EQ(scene.failures(), 0U);
  EXPECT_GT(scene.used(), 0U);
}

}  // namespace
}  // namespace uroce::test
