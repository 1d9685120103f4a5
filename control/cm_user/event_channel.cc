#include "control/cm_user/event_channel.h"

#include <utility>

#include "base/check.h"
#include "base/sockets/event_socket.h"

namespace uroce::control::cm_user {

// Behind all of its round.
EventChannel::Place EventChannel::push(const UserEvent& event) {
  const Place place = events_.insert(event);
  put_byte();
  return place;
}

EventChannel::Place EventChannel::adopt(Events::node_type event) noexcept {
  const Place place = events_.insert(std::move(event));
  put_byte();
  return place;
}

// It fails if the program has closed its end, when nobody waits for events.
void EventChannel::put_byte() {
  if (bytes_ == kBytesMax) {
    return;
  }
  const char byte = 1;
  bytes_ += put_event(write_end_.get(), byte) == PutEvent::kPut ? 1 : 0;
}

UserEvent EventChannel::pop() {
  UROCE_CHECK(!events_.empty());
  const UserEvent event = *events_.begin();
  events_.erase(events_.begin());
  return event;
}

std::uint32_t EventChannel::settle() {
  if (bytes_ == 0 && !events_.empty()) {
    put_byte();  // the kernel had no memory for it
  }
  const auto needed = static_cast<std::uint32_t>(events_.size());
  const std::uint32_t leaving = bytes_ > needed ? bytes_ - needed : 0;
  bytes_ -= leaving;
  return leaving;
}

}  // namespace uroce::control::cm_user
