#pragma once

// The thread that converts memory for threads that register it.

#include "verbs_shim/memory/sharing/isolated_thread.h"
#include "verbs_shim/memory/sharing/page_conversion.h"

namespace uroce::shim {

class ConversionThread {
 public:
  ConversionThread() = default;
  ConversionThread(const ConversionThread&) = delete;
  ConversionThread& operator=(const ConversionThread&) = delete;

  // See PageConversion::run(). One caller at a time.
  std::uint64_t run(const Conversion& conversion);

  // For a fork's child, where the thread doesn't exist.
  void forget();

 private:
  struct ThreadState;
  static void* work(void* argument);
  bool start();
  IsolatedThread thread_;  // never joined: it lives as long as the process
  ThreadState* state_ = nullptr;
};

}  // namespace uroce::shim
