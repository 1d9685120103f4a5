#pragma once

// The asynchronous events of a session on their way to its program. The socket takes a few hundred
// records; further ones are queued here, in order, until the program has read some. As in Linux,
// unread events of an object are discarded with it: here when the object is destroyed, in the
// socket by the program itself (verbs_shim/objects/event_queue.h), since reading the program's end
// would mean waiting for its other readers. Control thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "abi/command_records.h"
#include "base/unique_fd.h"

namespace uroce::control {

class EventSocketWatch;

class ProgramEvents {
 public:
  // The subject of an event.
  enum class Subject : std::uint8_t { kCq, kQp, kSrq, kPort };

  // The limit of queued events per object: all events that can happen to a queue pair without a
  // command in between (kCommEst, kSqDrained, the one that brought it into the error state,
  // kQpLastWqeReached), and more than can happen to other objects. As many are allowed for the
  // port, and for objects that change states again and again.
  static constexpr std::size_t kOfObjectMax = 4;
  static constexpr std::size_t kOthersMax = 256;
  // Records written to the socket at a time, so that other programs needn't wait for them.
  static constexpr int kPutMax = 256;

  ProgramEvents(EventSocketWatch& room, std::uint64_t session) : room_(room), session_(session) {}
  ~ProgramEvents();
  ProgramEvents(const ProgramEvents&) = delete;
  ProgramEvents& operator=(const ProgramEvents&) = delete;

  void set_socket(UniqueFd write_end) { socket_ = std::move(write_end); }

  // To the program now, or when there is room; lost if more would wait than `objects` have.
  void put(const abi::AsyncEventRecord& record, std::size_t objects);
  // The socket has room again.
  void go_on();
  // The object with this cookie has been destroyed.
  void forget(Subject subject, std::uint64_t cookie);

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  using Object = std::pair<Subject, std::uint64_t>;
  using Waiting = std::map<std::uint64_t, abi::AsyncEventRecord>;  // in the order of their numbers
  Waiting::iterator remove(Waiting::iterator at);
  void rest();

  EventSocketWatch& room_;
  std::uint64_t session_;
  UniqueFd socket_;
  Waiting waiting_;
  std::set<std::pair<Object, std::uint64_t>> of_objects_;  // the numbers of each object's events
  std::uint64_t next_number_ = 0;
  std::uint64_t lost_ = 0;
  bool watched_ = false;  // while there are any
};

}  // namespace uroce::control
