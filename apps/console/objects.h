#pragma once

// What a console session has made, by the names that the user gave. All of it is ordinary verbs:
// the console is a program like any other, but for the numbers that it may choose.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace uroce::console {

struct Region {
  ~Region();
  std::byte* bytes = nullptr;
  std::size_t length = 0;
  std::uint64_t iova = 0;
  ibv_mr* mr = nullptr;  // nullptr once it was removed: the memory stays readable
};

struct Queue {
  ~Queue();
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;  // of an XRC queue pair
  ibv_qp* qp = nullptr;
  ibv_ah* ah = nullptr;  // of a UD queue pair: its peer
  std::uint32_t peer_qpn = 0;
  std::uint32_t qkey = 0;
  unsigned rights = 0;  // of its peer
};

struct Window {
  ~Window();
  ibv_mw* mw = nullptr;
};

class Objects {
 public:
  static constexpr std::size_t kObjectsMax = 256;  // of each kind

  // Opens the first device of the daemon that UROCE_SOCKET names.
  static Result<std::unique_ptr<Objects>> open();
  ~Objects();
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  // Two protection domains: a console that tests protection needs another one.
  [[nodiscard]] ibv_pd* pd(bool other) const { return other ? other_pd_ : pd_; }

  Result<Region*> region(const std::string& name) const;
  Result<Queue*> queue(const std::string& name) const;

  std::map<std::string, std::unique_ptr<Region>> regions;
  std::map<std::string, std::unique_ptr<Queue>> queues;
  std::map<std::string, std::unique_ptr<Window>> windows;

  // The next queue pair and the next region get these numbers; 0: the daemon's choice.
  Status choose(std::uint32_t qpn, std::uint32_t key) const;

 private:
  Objects() = default;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_pd* other_pd_ = nullptr;
};

// The error of a verb that failed with `code` (an errno value).
Error verb_error(const char* verb, int code);

}  // namespace uroce::console
