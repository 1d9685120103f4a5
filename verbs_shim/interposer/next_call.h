#pragma once

// The libc function that one of ours interposes. Looked up when the library is loaded, since
// dlsym() takes the loader's lock, and open(), stat() and send() may be called where another thread
// holds it for ever: in a signal handler, in a child of fork(). For constructors of libraries that
// are loaded earlier it is looked up at the first call.

#include <dlfcn.h>

#include <atomic>

// Gives a function of ours the symbol of libc's, avoiding conflicts with the headers' declarations.
#define UROCE_STANDS_BEFORE(name) __asm__(name) __attribute__((visibility("default")))

// Defines `variable` as the libc function of this name and signature.
#define UROCE_NEXT_CALL(variable, name, ...)             \
  static constinit NextCall<__VA_ARGS__> variable{name}; \
  __attribute__((constructor)) static void find_##variable() { variable.find(); }

namespace uroce::interposer {

template <typename Signature>
class NextCall;

template <typename Returned, typename... Arguments>
class NextCall<Returned(Arguments...)> {
 public:
  constexpr explicit NextCall(const char* name) : name_(name) {}

  Returned operator()(Arguments... arguments) {
    void* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = find();
    }
    return reinterpret_cast<Returned (*)(Arguments...)>(function)(arguments...);
  }

  void* find() {
    void* function = dlsym(RTLD_NEXT, name_);
    function_.store(function, std::memory_order_relaxed);  // the same for every thread
    return function;
  }

 private:
  const char* name_;
  std::atomic<void*> function_{nullptr};
};

}  // namespace uroce::interposer
