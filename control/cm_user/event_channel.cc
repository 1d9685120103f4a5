#include "control/cm_user/event_channel.h"

#include "base/check.h"
#include "base/event_pipe.h"

namespace uroce::control::cm_user {

void EventChannel::push(UserEvent event) {
  events_.push_back(event);
  if (!byte_in_pipe_) {
    const char byte = 1;
    // It fails only when the program has closed its end: then nobody waits for events either.
    byte_in_pipe_ = put_event(write_end_.get(), byte) == PutEvent::kPut;
  }
}

UserEvent EventChannel::pop() {
  UROCE_CHECK(!events_.empty());
  const UserEvent event = events_.front();
  events_.pop_front();
  return event;
}

bool EventChannel::settle() {
  const bool drained = byte_in_pipe_ && events_.empty();
  if (drained) {
    byte_in_pipe_ = false;
  }
  return drained;
}

}  // namespace uroce::control::cm_user
