#include "control/sessions/program_events.h"

#include "base/sockets/event_socket.h"
#include "control/sessions/event_socket_watch.h"
#include "dataplane/qp/turn.h"

namespace uroce::control {
namespace {

ProgramEvents::Subject subject_of(std::uint32_t event) {
  using enum ProgramEvents::Subject;
  switch (static_cast<AsyncEvent>(event)) {
    case AsyncEvent::kCqErr:
      return kCq;
    case AsyncEvent::kSrqErr:
    case AsyncEvent::kSrqLimitReached:
      return kSrq;
    case AsyncEvent::kQpFatal:
    case AsyncEvent::kQpReqErr:
    case AsyncEvent::kQpAccessErr:
    case AsyncEvent::kCommEst:
    case AsyncEvent::kSqDrained:
    case AsyncEvent::kPathMig:
    case AsyncEvent::kPathMigErr:
    case AsyncEvent::kQpLastWqeReached:
      return kQp;
    default:
      return kPort;
  }
}

}  // namespace

ProgramEvents::~ProgramEvents() {
  waiting_.clear();
  rest();
}

void ProgramEvents::put(const abi::AsyncEventRecord& record, std::size_t objects) {
  if (waiting_.empty()) {
    switch (put_event(socket_.get(), record)) {
      case PutEvent::kPut:
        return;
      case PutEvent::kFull:
        break;
      case PutEvent::kClosed:
        ++lost_;
        return;
    }
  }
  if (waiting_.size() >= kOthersMax + kOfObjectMax * objects) {
    ++lost_;  // the program doesn't read its events, which harms only itself
    return;
  }
  watched_ = watched_ || room_.watch(socket_.get(), session_);
  if (!watched_) {
    ++lost_;
    return;
  }
  const std::uint64_t number = next_number_++;
  of_objects_.insert({{subject_of(record.event), record.cookie}, number});
  waiting_.emplace(number, record);
}

void ProgramEvents::send_waiting() {
  int put = 0;
  for (auto at = waiting_.begin(); at != waiting_.end() && put < kPutMax; ++put) {
    switch (put_event(socket_.get(), at->second)) {
      case PutEvent::kPut:
        at = remove(at);
        break;
      case PutEvent::kFull:
        return;
      case PutEvent::kClosed:  // the reader is gone
        lost_ += waiting_.size();
        waiting_.clear();
        of_objects_.clear();
        at = waiting_.end();
        break;
    }
  }
  rest();
}

void ProgramEvents::forget(Subject subject, std::uint64_t cookie) {
  const Object object{subject, cookie};
  auto at = of_objects_.lower_bound({object, 0});
  while (at != of_objects_.end() && at->first == object) {
    waiting_.erase(at->second);
    at = of_objects_.erase(at);
  }
  rest();
}

ProgramEvents::Waiting::iterator ProgramEvents::remove(Waiting::iterator at) {
  of_objects_.erase({{subject_of(at->second.event), at->second.cookie}, at->first});
  return waiting_.erase(at);
}

// A socket is watched only while events are queued: it nearly always has room.
void ProgramEvents::rest() {
  if (watched_ && waiting_.empty()) {
    room_.leave(socket_.get());
    watched_ = false;
  }
}

}  // namespace uroce::control
