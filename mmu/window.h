#pragma once

// A memory window: a second key for a part of a region (IBTA vol. 1, 10.6.7).
//
// Workers bind and invalidate windows, each as a step of a queue pair's send or receive queue,
// while others look them up: hence a sequence lock, under which all fields are atomics. A bound
// window pins its region, so that the region can't be removed before the window is unbound.
//
//   type 1: bound by ibv_bind_mw, again and again; a bind of length 0 unbinds it. Any queue pair of
//           its protection domain may be the way to it.
//   type 2: free, bound by a work request, invalidated by one, free again. Only the queue pair that
//           bound it is a way to it, and it has to be of the same protection domain (type 2B).

#include <atomic>
#include <cstdint>

#include "mmu/region.h"

namespace uroce {

// Values as in enum ibv_mw_type.
enum class WindowType : std::uint8_t { kType1 = 1, kType2 = 2 };

// The outcome of a bind or an invalidation.
enum class [[nodiscard]] WindowChange : std::uint8_t{
    kDone,
    kNoWindow,    // no window has this key
    kWrongPd,     // window, region and queue pair aren't all of one protection domain
    kWrongQp,     // a peer may invalidate only what is bound to the queue pair that it talks to
    kWrongType,   // not with this type of window
    kNotFree,     // a window of type 2 is bound already
    kNoRegion,    // no region has this lkey
    kNoRight,     // the region doesn't allow binding, or not with these rights
    kOutOfRange,  // not wholly inside the region
};

// A bind as a work request asks for it.
struct WindowBind {
  std::uint32_t new_key = 0;  // its low 8 bits become the window's tag
  std::uint32_t lkey = 0;     // of the region; not looked at with length 0
  std::uint64_t address = 0;  // of the window's first byte, as work requests name it
  std::uint64_t length = 0;
  std::uint32_t access = 0;  // AccessFlags
};

// The queue pair by which the packet or work request came.
struct KeyUser {
  PdId pd = 0;
  std::uint32_t qpn = 0;
};

class Window {
 public:
  static constexpr std::uint32_t kTagMask = 0xFF;

  Window(PdId pd, WindowType type) : pd_(pd), type_(type) {}

  // The binding, consistent at one moment. region == nullptr: unbound.
  struct State {
    std::uint32_t key = 0;
    std::uint32_t qpn = 0;
    std::uint32_t access = 0;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const Region* region = nullptr;
  };
  [[nodiscard]] State state() const;

  // REQUIRES: `region` is what bind.lkey names, or nullptr if nothing; it can't be freed during the
  // call.
  WindowChange bind(const WindowBind& bind, const Region* region, const KeyUser& user);

  // An invalidation by the program's own work request (`remote` false) or by the peer's SEND. A
  // window that is free already stays so.
  WindowChange invalidate(std::uint32_t key, const KeyUser& user, bool remote);

  // Unbinds it if it is bound and, unless `qpn` is 0, of type 2 with this queue pair.
  void release(std::uint32_t qpn);
  // Unbinds it if it is bound to `region`. If it is bound or unbound at the same moment it may be
  // passed over: whoever needs to know that nothing is bound to a region asks Region::close().
  void release_from(const Region& region);
  // The same for any region that can't be bound any more (Region::retire).
  void release_from_retired();

  [[nodiscard]] PdId pd() const { return pd_; }
  [[nodiscard]] WindowType type() const { return type_; }

 private:
  friend class WindowTable;  // which gives it its key

  // Holds the version odd, so that readers wait and other writers too.
  class [[nodiscard]] Writing {
   public:
    explicit Writing(std::atomic<std::uint32_t>& version);
    ~Writing() { version_.store(odd_ + 1, std::memory_order_release); }  // pairs with state()
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    std::atomic<std::uint32_t>& version_;
    std::uint32_t odd_ = 0;
  };
  [[nodiscard]] WindowChange check_bind(const WindowBind& bind, const Region* region,
                                        const KeyUser& user) const;
  void put(const State& state);

  // Stores release and loads acquire: a reader that sees a new field sees the odd version before
  // it.
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> key_ = 0;
  std::atomic<std::uint32_t> qpn_{0};
  std::atomic<std::uint32_t> access_{0};
  std::atomic<std::uint64_t> address_{0};
  std::atomic<std::uint64_t> length_{0};
  std::atomic<const Region*> region_{nullptr};
  PdId pd_;
  WindowType type_;
};

}  // namespace uroce
