#include "mmu/pinned/unmapper.h"

#include <pthread.h>

#include "base/all_processors.h"
#include "mmu/pinned/mapping.h"

namespace uroce {
namespace {

constexpr std::size_t kUnmapperStackBytes = 128U << 10U;

}  // namespace

// Never destroyed: the thread exists until the process ends.
Unmapper& Unmapper::of_process() {
  static Unmapper* const unmapper = new Unmapper;
  return *unmapper;
}

void Unmapper::start() {
  const std::lock_guard lock(mutex_);
  if (started_) {
    return;
  }
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kUnmapperStackBytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  started_ = ::pthread_create(&thread, &attributes, run, this) == 0;
  ::pthread_attr_destroy(&attributes);
}

void* Unmapper::run(void* unmapper) {
  ::pthread_setname_np(::pthread_self(), "uroce-unmap");
  use_all_processors();
  static_cast<Unmapper*>(unmapper)->serve();
}

void Unmapper::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    put_.wait(lock, [this] { return count_ != 0; });
    Mapping* const mapping = take_next();
    work_ = {true, mapping->account_, mapping->length_, work_.round};
    lock.unlock();
    delete mapping;
    lock.lock();
    work_ = {.round = work_.round + 1};
    done_.notify_all();
  }
}

void Unmapper::put(Mapping* mapping) {
  {
    const std::lock_guard lock(mutex_);
    if (started_) {
      List& list = lists_[mapping->account_ % kLists];
      (list.first == nullptr ? list.first : list.last->next_) = mapping;
      list.last = mapping;
      ++count_;
      mapping = nullptr;
    }
  }
  put_.notify_one();
  delete mapping;
}

bool Unmapper::make_room(std::uint64_t account, std::uint64_t* bytes) {
  std::unique_lock lock(mutex_);
  if (const Mapping* const mapping = take(lists_[account % kLists], account, *bytes);
      mapping != nullptr) {
    lock.unlock();
    *bytes -= mapping->length_;
    delete mapping;
    return true;
  }
  if (!work_.under_way || work_.account != account || work_.bytes > *bytes) {
    return false;
  }
  *bytes -= work_.bytes;
  done_.wait(lock, [this, round = work_.round] { return work_.round != round; });
  return true;
}

std::uint64_t Unmapper::unmapped() {
  const std::lock_guard lock(mutex_);
  return work_.round;
}

// REQUIRES: the mutex. nullptr: the account has none that is small enough.
Mapping* Unmapper::take(List& list, std::uint64_t account, std::uint64_t bytes) {
  Mapping* before = nullptr;
  for (Mapping* at = list.first; at != nullptr; before = at, at = at->next_) {
    if (at->account_ == account && at->length_ <= bytes) {
      (before == nullptr ? list.first : before->next_) = at->next_;
      if (at == list.last) {
        list.last = before;
      }
      --count_;
      return at;
    }
  }
  return nullptr;
}

// REQUIRES: the mutex, and that there is one.
Mapping* Unmapper::take_next() {
  while (lists_[turn_ % kLists].first == nullptr) {
    ++turn_;
  }
  List& list = lists_[turn_++ % kLists];
  return take(list, list.first->account_, list.first->length_);
}

}  // namespace uroce
