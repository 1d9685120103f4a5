#pragma once

// A daemon of the benchmark's own and verbs objects on it, for benchmarks that measure what a
// program sees. Any failure ends the benchmark.

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace uroce::bench {

// uroced on its loopback, as a child that dies with this process. The environment passes its socket
// to libibverbs.
class BenchDaemon {
 public:
  explicit BenchDaemon(const std::string& program);
  ~BenchDaemon();
  BenchDaemon(const BenchDaemon&) = delete;
  BenchDaemon& operator=(const BenchDaemon&) = delete;

  [[nodiscard]] pid_t pid() const { return child_; }

 private:
  std::string folder_;
  pid_t child_ = -1;
};

struct DeregisterRegion {
  void operator()(ibv_mr* region) const { ibv_dereg_mr(region); }
};
using RegionHandle = std::unique_ptr<ibv_mr, DeregisterRegion>;

class BenchCard {
 public:
  BenchCard();
  ~BenchCard();
  BenchCard(const BenchCard&) = delete;
  BenchCard& operator=(const BenchCard&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] const ibv_gid& gid() const { return gid_; }
  [[nodiscard]] ibv_mtu mtu() const { return mtu_; }
  // With all access rights, on demand or pinned.
  RegionHandle register_range(void* address, std::size_t length, bool on_demand);

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_gid gid_{};
  ibv_mtu mtu_ = IBV_MTU_1024;
};

// Two connected RC queue pairs of the card; one WRITEs to the other.
class BenchPair {
 public:
  static constexpr std::uint32_t kDepth = 64;

  explicit BenchPair(const BenchCard& card);
  // With its own rings for `depth` work requests, and a completion queue shared with others: its
  // owner polls it, and outstanding() counts what was posted.
  BenchPair(const BenchCard& card, std::uint32_t depth, ibv_cq* shared);
  ~BenchPair();
  BenchPair(const BenchPair&) = delete;
  BenchPair& operator=(const BenchPair&) = delete;

  void post_write(const ibv_mr& from, std::size_t from_offset, const ibv_mr& to,
                  std::size_t to_offset, std::uint32_t length, std::uint64_t wr_id = 0);
  std::uint32_t reap();  // completions, at most kDepth; none has an error
  [[nodiscard]] std::uint32_t outstanding() const { return outstanding_; }
  void drain();
  // Nanoseconds from posting a WRITE to its completion.
  double write_one(const ibv_mr& from, const ibv_mr& to, std::size_t to_offset,
                   std::uint32_t length);

 private:
  ibv_cq* cq_ = nullptr;
  bool owns_cq_ = false;
  ibv_qp* sender_ = nullptr;
  ibv_qp* receiver_ = nullptr;
  std::uint32_t outstanding_ = 0;
};

// Untouched private memory in pages of 4 KiB, unmapped at the end.
class Pages {
 public:
  explicit Pages(std::size_t length);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::byte* data() const { return start_; }
  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  std::byte* start_;
  std::size_t length_;
};

}  // namespace uroce::bench
