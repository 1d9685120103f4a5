#pragma once

// Unmaps mappings that no region uses any more, in a thread of its own. Freeing 16 MiB of pages
// takes the kernel some 2 ms, and a session that ends frees thousands of such mappings.
//
// One per process. Its thread is started by the first large mapping, and stays. Users take turns,
// so that one user's unmapped memory doesn't delay that of others.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace uroce {

class Mapping;

class Unmapper {
 public:
  static Unmapper& of_process();
  Unmapper(const Unmapper&) = delete;
  Unmapper& operator=(const Unmapper&) = delete;

  // Any thread that may make threads, before it makes what is to be unmapped. Without a thread, who
  // gives something up unmaps it.
  void start();
  // Any thread. The mapping is the unmapper's from here on, and paid for until it is unmapped.
  void put(Mapping* mapping);
  // For who can't be charged for more: a mapping of this account that was given up, of at most
  // `*bytes`, is unmapped when this returns, and taken off `*bytes`. False: there is none.
  bool make_room(std::uint64_t account, std::uint64_t* bytes);
  // How many its thread has unmapped so far: none of them is paid for any more.
  [[nodiscard]] std::uint64_t unmapped();

 private:
  Unmapper() = default;

  static constexpr std::size_t kLists = 64;
  // Mappings in the order in which they came.
  struct List {
    Mapping* first = nullptr;
    Mapping* last = nullptr;
  };
  static void* run(void* unmapper);
  [[noreturn]] void serve();
  Mapping* take(List& list, std::uint64_t account, std::uint64_t bytes);
  Mapping* take_next();

  std::mutex mutex_;
  std::condition_variable put_, done_;
  std::array<List, kLists> lists_{};  // by account
  std::size_t turn_ = 0;              // whose list is next
  std::size_t count_ = 0;             // in all lists
  // What the thread unmaps at this moment.
  struct Work {
    bool under_way = false;
    std::uint64_t account = 0, bytes = 0;
    std::uint64_t round = 0;  // how many there were before
  } work_;
  bool started_ = false;
};

}  // namespace uroce
