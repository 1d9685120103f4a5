#pragma once

// Quiescence: when may memory that workers read without locks be freed? When each worker has, since
// it was unpublished, ended a turn or gone to sleep. Built on rte_rcu_qsbr, which works without the
// EAL.

#include <cstdint>
#include <memory>
#include <mutex>

struct rte_rcu_qsbr;

namespace uroce {

class Quiescence {
 public:
  static constexpr std::uint32_t kWorkersMax = 64;

  explicit Quiescence(std::uint32_t workers_max = kWorkersMax);
  ~Quiescence();
  Quiescence(const Quiescence&) = delete;
  Quiescence& operator=(const Quiescence&) = delete;

  // Workers. online() before the first turn and after sleep; quiescent() once a turn, when nothing
  // looked up is held any more; offline() before sleep and at the end.
  void online(std::uint32_t worker);
  void quiescent(std::uint32_t worker);
  void offline(std::uint32_t worker);

  // Any other thread: returns when every online worker has passed a quiescent state since the call.
  // Yields.
  void wait();

  // The same in two steps, for whoever can't wait, workers too: over(begin()), asked again and
  // again, turns true. Several threads may ask; none waits for another, it is told no.
  [[nodiscard]] std::uint64_t begin() const;
  [[nodiscard]] bool over(std::uint64_t token) const;

 private:
  struct Deleter {
    void operator()(rte_rcu_qsbr* state) const;
  };
  std::unique_ptr<rte_rcu_qsbr, Deleter> state_;
  mutable std::mutex checking_;
};

}  // namespace uroce
