#pragma once

// The slow way in batches: a message's packets lie one behind the other in the program's memory, so
// one system call reads or writes for several of them. A worker's own.
//
// preadv and pwritev wouldn't do: they take one address in the program, which is as contiguous as
// here, and the kernel goes through /proc/PID/mem buffer by buffer, each as slowly as a call of its
// own. One buffer in between costs a copy in the cache.
//
// What is here never outlives the worker's turn, in which it holds its regions (quiescence.h), nor
// is read twice: bytes read ahead are for the packets that follow in the same message.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace uroce {

class RemoteBatch {
 public:
  static constexpr std::size_t kBytes = 32U << 10U;
  static constexpr std::size_t kReadAheadMin = 8U << 10U;  // what a queue pair sends in one visit

  RemoteBatch();

  // `length` bytes at `address` of the program whose memory is the file `memory`; valid until the
  // next call. `ahead`: bytes behind them that will be read next. nullptr if they can't be read.
  const std::byte* read(int memory, std::uint64_t address, std::size_t length, std::uint64_t ahead);

  // Writes `length` bytes. `more`: others of the same message follow; then these may wait for them.
  // *failed is set, now or later, if they can't be written; it stays where it is until flush().
  void write(int memory, std::uint64_t address, const std::byte* source, std::size_t length,
             bool more, bool* failed);
  // The message is whole: nothing of it waits any more. False if some of it couldn't be written.
  bool finish(bool* failed);

  // Writes what waits: at the end of what was received, before anything is answered.
  void flush();
  // Forgets what was read ahead. At the end of the turn.
  void forget();

 private:
  // What was read: [next_, end_) of the buffer is for who asks for `next_address_`.
  std::unique_ptr<std::byte[]> read_;
  int read_memory_ = -1;
  std::uint64_t next_address_ = 0;
  std::size_t next_ = 0, end_ = 0;
  std::size_t read_ahead_ = kReadAheadMin;  // more while all of it is used

  // What waits to be written.
  std::unique_ptr<std::byte[]> waiting_;
  int write_memory_ = -1;
  std::uint64_t write_address_ = 0;
  std::size_t waiting_length_ = 0;
  bool* failed_ = nullptr;
};

}  // namespace uroce
