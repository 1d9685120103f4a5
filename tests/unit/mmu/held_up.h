#pragma once

// A program's helper (mmu/remote/remote_program.h) that is held up: the test's own copy is done,
// and whoever is told of it doesn't return until release().

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "mmu/remote/remote_program.h"

namespace uroce::test {

class HeldUp {
 public:
  explicit HeldUp(RemoteProgram& program) {
    copy_->kind = RemoteCopy::Kind::kWrite;
    copy_->bell = std::make_shared<CopyBell>([this] {
      held_ = true;
      held_.notify_all();
      released_.wait(false);
    });
    EXPECT_TRUE(program.put(copy_.get()));
    held_.wait(false);
  }
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;
  // The bell's silence waits until the helper has returned from what looks at this object.
  ~HeldUp() {
    release();
    copy_->bell->silence();
  }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  std::unique_ptr<RemoteCopy> copy_ = std::make_unique<RemoteCopy>();
  std::atomic<bool> held_{false}, released_{false};
};

}  // namespace uroce::test
