#include "dataplane/engine/wakeup.h"

namespace uroce {

void Wakeup::wake_up() {
  status_->asleep.store(0, std::memory_order_relaxed);
  event_.quieten();  // a packet or a program may have woken the worker
}

}  // namespace uroce
