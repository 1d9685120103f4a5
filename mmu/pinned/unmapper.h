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

  // Any thread that may create threads, before it makes what is to be unmapped. Without the thread,
  // mappings are unmapped by those that release them.
  void start();
  // Any thread. The unmapper now owns the mapping, which stays charged until it is unmapped.
  void put(Mapping* mapping);
  // For users that can't be charged for more: unmaps a released mapping of this account, of at most
  // `*bytes`, before it returns, and subtracts it from `*bytes`. False: there is none.
  bool make_room(std::uint64_t account, std::uint64_t* bytes);
  // The number that its thread has unmapped so far: none of them is charged any more.
  [[nodiscard]] std::uint64_t unmapped();

 private:
  Unmapper() = default;

  static constexpr std::size_t kLists = 64;
  // Mappings in order of arrival.
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
  // What the thread is unmapping at this moment.
  struct Work {
    bool under_way = false;
    std::uint64_t account = 0, bytes = 0;
    std::uint64_t round = 0;  // how many there were before
  } work_;
  bool started_ = false;
};

}  // namespace uroce
