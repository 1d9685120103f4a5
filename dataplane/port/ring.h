#pragma once

// A bounded ring of pointers between threads: rte_ring in separately allocated memory, so that it
// works without the EAL. One consumer, one or several producers; the ring doesn't own its elements.
//
// Several producers take a lock for each burst. rte_ring's own multi-producer mode isn't lock-free
// either (a producer waits for earlier ones), and in DPDK 22.11 it has no acquire between
// producers, so it is only correct on processors with strong ordering.

#include <atomic>
#include <cstdint>
#include <memory>

struct rte_ring;

namespace uroce {

enum class Producers : std::uint8_t { kOne, kSeveral };

class PointerRing {
 public:
  // Holds `entries` elements, a power of two.
  PointerRing(std::uint32_t entries, Producers producers);
  ~PointerRing();
  PointerRing(const PointerRing&) = delete;
  PointerRing& operator=(const PointerRing&) = delete;

  // Takes the first n of `count` and returns n: fewer when the ring is full.
  std::uint32_t enqueue(void* const* elements, std::uint32_t count);
  std::uint32_t dequeue(void** elements, std::uint32_t count);

  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] std::uint32_t room() const;
  [[nodiscard]] bool empty() const { return size() == 0; }

 private:
  struct Deleter {
    void operator()(rte_ring* ring) const;
  };
  std::unique_ptr<rte_ring, Deleter> ring_;
  bool shared_;  // by several producers
  // Taken with acquire, cleared with release, by producers: pairs with itself, so that a consumer
  // that sees one producer's elements sees those of the producers before it.
  std::atomic_flag producer_lock_ = ATOMIC_FLAG_INIT;
};

template <typename T>
class Ring : public PointerRing {
 public:
  using PointerRing::PointerRing;
  std::uint32_t enqueue(T* const* elements, std::uint32_t count) {
    return PointerRing::enqueue(reinterpret_cast<void* const*>(elements), count);
  }
  std::uint32_t dequeue(T** elements, std::uint32_t count) {
    return PointerRing::dequeue(reinterpret_cast<void**>(elements), count);
  }
};

}  // namespace uroce
