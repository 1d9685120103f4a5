#pragma once

// The queue of a session's asynchronous events. The socket takes a few hundred records; further
// ones are queued here, in order, until the program has read some. As in Linux, unread events of a
// destroyed object are discarded: those queued here by the daemon, those in the socket by the
// program itself (verbs_shim/objects/event_queue.h), since reading the program's end would mean
// waiting for its other readers. Control thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "abi/command_records.h"
#include "abi/device_records.h"
#include "base/unique_fd.h"

namespace uroce::control {

class EventSocketWatch;

class ProgramEvents {
 public:
  // The kind of object an event is about.
  enum class Subject : std::uint8_t { kCq, kQp, kSrq, kPort };

  // The limit of queued events per object: all events that can happen to a queue pair without a
  // command in between (kCommEst, kSqDrained, the one that brought it into the error state,
  // kQpLastWqeReached), and more than can happen to other objects. As many are allowed for the
  // port, and for objects that change states again and again.
  static constexpr std::size_t kOfObjectMax = 4;
  static constexpr std::size_t kOthersMax = 256;
  // Records written to the socket at a time, so that other programs aren't delayed.
  static constexpr int kPutMax = 256;

  ProgramEvents(EventSocketWatch& room, std::uint64_t session) : room_(room), session_(session) {}
  ~ProgramEvents();
  ProgramEvents(const ProgramEvents&) = delete;
  ProgramEvents& operator=(const ProgramEvents&) = delete;

  void set_socket(UniqueFd write_end) { socket_ = std::move(write_end); }

  // Sends the event now, or when there is room; drops it if the queue already holds kOfObjectMax
  // for each of `objects`.
  void put(const abi::AsyncEventRecord& record, std::size_t objects);
  // The socket has room again.
  void send_waiting();
  // The object with this cookie has been destroyed.
  void forget(Subject subject, std::uint64_t cookie);

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  using Object = std::pair<Subject, std::uint64_t>;
  using Waiting = std::map<std::uint64_t, abi::AsyncEventRecord>;  // by sequence number
  Waiting::iterator remove(Waiting::iterator at);
  void rest();

  EventSocketWatch& room_;
  std::uint64_t session_;
  UniqueFd socket_;
  Waiting waiting_;
  std::set<std::pair<Object, std::uint64_t>> of_objects_;  // events of each object
  std::uint64_t next_number_ = 0;
  std::uint64_t lost_ = 0;
  bool watched_ = false;  // true while events are queued
};

}  // namespace uroce::control
