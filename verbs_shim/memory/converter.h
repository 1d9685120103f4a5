#pragma once

// The thread that converts memory for whoever registers it.

#include "verbs_shim/memory/conversion.h"
#include "verbs_shim/memory/own_thread.h"

namespace uroce::shim {

class Converter {
 public:
  Converter() = default;
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  // As ConversionDesk::run. One caller at a time.
  int run(const Conversion& conversion);

  // In a fork's child, where the thread doesn't exist.
  void forget() { thread_.forget(); }

 private:
  struct Office;
  static void* work(void* office);
  bool start();
  OwnThread thread_;  // never joined: it lives as long as the process
  Office* office_ = nullptr;
};

}  // namespace uroce::shim
