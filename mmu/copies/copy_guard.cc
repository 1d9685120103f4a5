#include "mmu/copies/copy_guard.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <type_traits>

#include "base/check.h"
#include "mmu/copies/copy.h"
#include "mmu/copies/forward_copy.h"
#include "mmu/copies/small_copy.h"

namespace uroce {

constinit thread_local sigjmp_buf* detail::guard_entry = nullptr;

namespace {

struct sigaction previous;  // written once, before the handler is in place

// Not a guarded access: behave as if this handler didn't exist.
void call_previous_handler(int number, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {
    // The kernel's default action: the access is repeated, or the signal sent again, and ends the
    // process.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(number, &standard, nullptr);
    if (info->si_code <= 0) {
      raise(number);
    }
  }
}

// Where a thread goes on that was in a copy whose instructions are known; nullptr: it was in none.
const void* copy_failed(const void* instruction) {
  const void* const failed = small_copy_failed(instruction);
  return failed != nullptr ? failed : forward_copy_failed(instruction);
}

// Where the interrupted thread is, and where it goes on.
auto& instruction_of(void* context) {
  mcontext_t& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return registers.gregs[REG_RIP];
#else
  return registers.pc;
#endif
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  // Positive codes are the kernel's, for the access that this thread was making. BUS_MCEERR_AO
  // doesn't concern an access.
  const bool access = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
  auto& instruction = instruction_of(context);
  const void* const failed = copy_failed(reinterpret_cast<const void*>(instruction));
  if (access && failed != nullptr) {
    instruction = reinterpret_cast<std::remove_reference_t<decltype(instruction)>>(failed);
    return;
  }
  if (access && detail::guard_entry != nullptr) {
    // The jump doesn't restore the mask, which blocks this signal while it is handled.
    pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(*detail::guard_entry, 1);
  }
  call_previous_handler(number, info, context);
}

bool install() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, nullptr, &previous);
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

void install_copy_guard() {
  static const bool installed = install();
  UROCE_CHECK(installed);
}

}  // namespace uroce
