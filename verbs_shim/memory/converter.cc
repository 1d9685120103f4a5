#include "verbs_shim/memory/converter.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

namespace uroce::shim {
namespace {

enum State : std::uint32_t { kIdle, kOrdered, kDone };

void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value) {
  ::syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& state) {
  ::syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

// What the caller puts down for the thread, and the thread's room to work.
struct Converter::Office {
  // kIdle -> kOrdered by the caller, -> kDone by the thread, -> kIdle by the caller. Each store is
  // a release that pairs with the acquire of whoever waits for it.
  std::atomic<std::uint32_t> state{kIdle};
  Conversion order;
  int error = 0;
  ConversionDesk desk;
};

void* Converter::work(void* argument) {
  Office& office = *static_cast<Office*>(argument);
  for (;;) {
    for (std::uint32_t state; (state = office.state.load(std::memory_order_acquire)) != kOrdered;) {
      wait_while(office.state, state);
    }
    office.error = office.desk.run(office.order);
    office.state.store(kDone, std::memory_order_release);
    wake(office.state);
  }
  return nullptr;
}

bool Converter::start() {
  if (thread_.prepared()) {
    return true;
  }
  if (!thread_.prepare(sizeof(Office))) {
    return false;
  }
  office_ = new (thread_.state()) Office;
  return thread_.start("uroce-memory", work, office_);
}

int Converter::run(const Conversion& conversion) {
  if (!start()) {
    return EAGAIN;
  }
  office_->order = conversion;
  office_->order.unwatched = one_thread();
  // A signal handler could write to the range where nothing holds writers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  office_->state.store(kOrdered, std::memory_order_release);
  wake(office_->state);
  while (office_->state.load(std::memory_order_acquire) != kDone) {
    wait_while(office_->state, kOrdered);
  }
  const int error = office_->error;
  office_->state.store(kIdle, std::memory_order_release);
  wake(office_->state);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace uroce::shim
