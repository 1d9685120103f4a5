#pragma once

// Blocks a program's helper (mmu/proc_mem/proc_mem_thread.h): the test's own copy is done, and its
// notifier doesn't return until release().

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "mmu/proc_mem/proc_mem_thread.h"

namespace uroce::test {

class HeldUp {
 public:
  explicit HeldUp(ProcMemThread& program) {
    copy_->kind = ProcMemCopy::Kind::kWrite;
    copy_->notifier = std::make_shared<CopyNotifier>([this] {
      held_ = true;
      held_.notify_all();
      released_.wait(false);
    });
    EXPECT_TRUE(program.put(copy_.get()));
    held_.wait(false);
  }
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;
  // CopyNotifier::detach() waits until the helper has left the callback, which uses this object.
  ~HeldUp() {
    release();
    copy_->notifier->detach();
  }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  std::unique_ptr<ProcMemCopy> copy_ = std::make_unique<ProcMemCopy>();
  std::atomic<bool> held_{false}, released_{false};
};

}  // namespace uroce::test
