#include "mmu/proc_mem/proc_mem_thread.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "base/all_processors.h"
#include "base/check.h"
#include "mmu/copies/copy.h"
#include "mmu/proc_mem/proc_mem.h"

namespace uroce {
namespace {

constexpr std::size_t kStackBytes = 128U << 10U;

bool take_one(std::atomic<std::uint32_t>& count, std::uint32_t max) {
  if (count.fetch_add(1, std::memory_order_relaxed) < max) {
    return true;
  }
  count.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

// The usage of one user, over all programs.
struct ProcMemThread::UserCounts {
  std::atomic<std::uint32_t> threads{0}, copies{0};  // relaxed: they order nothing
  // Serialise atomics on its programs' words, by the offset in the page, since several programs may
  // have mapped one word. Per user: the holder of one may be kept waiting by that user.
  std::array<std::mutex, 64> word_locks;

  std::mutex& word_lock(std::uint64_t address) {
    return word_locks[address / sizeof(std::uint64_t) % word_locks.size()];
  }
};

std::shared_ptr<ProcMemThread::UserCounts> ProcMemThread::counts_of(const User& user) {
  static std::mutex mutex;
  static std::map<User, std::weak_ptr<UserCounts>> users;
  // Made beforehand, as nothing may be allocated under the mutex (State::mutex_).
  auto counts = std::make_shared<UserCounts>();
  std::map<User, std::weak_ptr<UserCounts>> more{{user, counts}};
  const std::lock_guard lock(mutex);
  std::erase_if(users, [](const auto& entry) { return entry.second.expired(); });
  users.merge(more);
  if (auto known = users.at(user).lock(); known != nullptr) {
    return known;
  }
  users.at(user) = counts;  // the last of the user's programs has just ended
  return counts;
}

// Shared by the program's owners and its thread; the last one frees it.
class ProcMemThread::State {
 public:
  State(std::shared_ptr<const UniqueFd> memory, std::shared_ptr<UserCounts> counts)
      : counts_(std::move(counts)), memory_(std::move(memory)) {}

  bool put(ProcMemCopy* copy) {
    if (!take_one(waiting_, kWaitingMax)) {
      return false;
    }
    if (!take_one(counts_->copies, kUserCopiesMax)) {
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    put_.fetch_add(1, std::memory_order_relaxed);
    UROCE_CHECK(queue_.push(copy));  // it has room for kWaitingMax
    ring();
    return true;
  }

  bool notify_when_idle(Waiters&& waiter) {
    const std::lock_guard lock(mutex_);
    // Acquire: pairs with finish(), so that what was copied is there.
    if (finished_.load(std::memory_order_acquire) == put_.load(std::memory_order_relaxed)) {
      return true;
    }
    waiter.front().put = put_.load(std::memory_order_relaxed);
    waiters_.splice(waiters_.end(), waiter);
    return false;
  }

  void stop() {
    stopping_.store(true, std::memory_order_relaxed);
    ring();
  }

  void run() {
    for (;;) {
      const std::uint32_t before = pushed_.load(std::memory_order_acquire);
      if (ProcMemCopy* copy = nullptr; queue_.pop(copy)) {
        carry_out(*copy);
        finish(copy);
      } else if (stopping_.load(std::memory_order_relaxed)) {
        break;
      } else {
        pushed_.wait(before, std::memory_order_acquire);
      }
    }
    counts_->threads.fetch_sub(1, std::memory_order_relaxed);
  }

  std::shared_ptr<UserCounts> counts_;

 private:
  // After the state that it announces was published: run() checks that after it has checked the
  // notifier.
  void ring() {
    pushed_.fetch_add(1, std::memory_order_release);
    pushed_.notify_one();
  }

  void carry_out(ProcMemCopy& copy) {
    auto waiting = ProcMemCopy::State::kWaiting;
    if (!copy.state.compare_exchange_strong(waiting, ProcMemCopy::State::kRunning)) {
      return;  // abandoned
    }
    copy.outcome = transfer(copy) ? Access::kGranted : Access::kLost;
  }

  [[nodiscard]] bool transfer(ProcMemCopy& copy) const {
    const int memory = memory_->get();
    switch (copy.kind) {
      case ProcMemCopy::Kind::kRead: {
        copy.length = read_some(memory, copy.first(), copy.bytes.get(), copy.length);
        return copy.length >= copy.needed;
      }
      case ProcMemCopy::Kind::kWrite: {
        const std::byte* source = copy.bytes.get();
        bool stored = true;
        for (const ProcMemCopy::Segment& segment : copy.segments) {
          stored = write_program(memory, segment.address, source, segment.length) && stored;
          source += segment.length;
        }
        return stored;
      }
      case ProcMemCopy::Kind::kCompareSwap: {
        const std::lock_guard lock(counts_->word_lock(copy.first()));
        return swap_program_word(memory, copy.first(), copy.compare, copy.operand, &copy.original);
      }
      case ProcMemCopy::Kind::kFetchAdd: {
        const std::lock_guard lock(counts_->word_lock(copy.first()));
        return add_program_word(memory, copy.first(), copy.operand, &copy.original);
      }
    }
    return false;
  }

  void finish(ProcMemCopy* copy) {
    const std::shared_ptr<CopyNotifier> notifier =
        copy->notifier;  // the copy may be gone after the exchange
    if (copy->state.exchange(ProcMemCopy::State::kDone, std::memory_order_acq_rel) ==
        ProcMemCopy::State::kAbandoned) {
      delete copy;
    } else {
      notifier->notify();
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    counts_->copies.fetch_sub(1, std::memory_order_relaxed);
    Waiters over;
    {
      const std::lock_guard lock(mutex_);
      const std::uint64_t finished = finished_.fetch_add(1, std::memory_order_release) + 1;
      // In the order of what they wait for.
      const auto first_left =
          std::find_if(waiters_.begin(), waiters_.end(),
                       [finished](const Waiter& waiter) { return waiter.put > finished; });
      over.splice(over.end(), waiters_, waiters_.begin(), first_left);
    }
    for (const Waiter& waiter : over) {
      waiter.then();
    }
  }

  std::shared_ptr<const UniqueFd> memory_;
  boost::lockfree::queue<ProcMemCopy*, boost::lockfree::capacity<kWaitingMax + 1>> queue_;
  std::atomic<std::uint32_t> pushed_{0};
  std::atomic<std::uint32_t> waiting_{0};  // relaxed: a bound
  std::atomic<std::uint64_t> put_{0}, finished_{0};
  std::atomic<bool> stopping_{false};  // relaxed: the notifier orders it
  // Of waiters_; no worker takes it. Nothing is allocated under it: what is thrown wouldn't unlock
  // it, as this is built without exceptions.
  std::mutex mutex_;
  Waiters waiters_;
};

Result<std::shared_ptr<ProcMemThread>> ProcMemThread::start(std::shared_ptr<const UniqueFd> memory,
                                                            const User& user) {
  auto state = std::make_shared<State>(std::move(memory), counts_of(user));
  if (!take_one(state->counts_->threads, kUserThreadsMax)) {
    return Error{ENOMEM,
                 "user " + std::to_string(user.uid) + " has " + std::to_string(kUserThreadsMax) +
                     " programs with memory that is accessed through /proc/PID/mem, no more"};
  }
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  auto* const handed = new std::shared_ptr<State>(state);
  pthread_t thread{};
  const int error = ::pthread_create(
      &thread, &attributes,
      [](void* of_thread) -> void* {
        const std::unique_ptr<std::shared_ptr<State>> own(
            static_cast<std::shared_ptr<State>*>(of_thread));
        ::pthread_setname_np(::pthread_self(), "uroce-copy");
        use_all_processors();
        (*own)->run();
        return nullptr;
      },
      handed);
  ::pthread_attr_destroy(&attributes);
  if (error != 0) {
    delete handed;
    state->counts_->threads.fetch_sub(1, std::memory_order_relaxed);
    return Error{ENOMEM, "the daemon has no thread to copy with (" +
                             std::generic_category().message(error) +
                             "): raise its limit of processes (ulimit -u, pids.max of the cgroup)"};
  }
  return std::shared_ptr<ProcMemThread>(new ProcMemThread(std::move(state)));
}

ProcMemThread::~ProcMemThread() { state_->stop(); }

bool ProcMemThread::put(ProcMemCopy* copy) { return state_->put(copy); }

bool ProcMemThread::abandon(ProcMemCopy* copy) {
  return copy->state.exchange(ProcMemCopy::State::kAbandoned, std::memory_order_acq_rel) ==
         ProcMemCopy::State::kDone;
}

bool ProcMemThread::notify_when_idle(Waiters&& waiter) {
  return state_->notify_when_idle(std::move(waiter));
}

}  // namespace uroce
