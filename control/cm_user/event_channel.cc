#include "control/cm_user/event_channel.h"

#include "base/check.h"
#include "base/sockets/event_socket.h"

namespace uroce::control::cm_user {

void EventChannel::push(UserEvent event) {
  auto behind = events_.end();
  while (behind != events_.begin() && std::prev(behind)->round > event.round) {
    --behind;
  }
  events_.insert(behind, event);
  if (!byte_waits_) {
    const char byte = 1;
    // It fails only if the program has closed its end, so nobody waits for events.
    byte_waits_ = put_event(write_end_.get(), byte) == PutEvent::kPut;
  }
}

UserEvent EventChannel::pop() {
  UROCE_CHECK(!events_.empty());
  const UserEvent event = events_.front();
  events_.pop_front();
  return event;
}

bool EventChannel::settle() {
  const bool drained = byte_waits_ && events_.empty();
  if (drained) {
    byte_waits_ = false;
  }
  return drained;
}

}  // namespace uroce::control::cm_user
