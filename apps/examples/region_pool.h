#pragma once

// Registrations that are made as buffers come and ended in batches, as kernel users do with FMR or
// FastReg pools: ending one stops the card's lookups for a moment, so the used ones wait, "dirty",
// until a watermark is reached, and are flushed together. One thread.

#include <infiniband/verbs.h>

#include <cstddef>
#include <vector>

class RegionPool {
 public:
  // At most `size` registrations at a time; `watermark` dirty ones are flushed.
  RegionPool(ibv_pd* pd, std::size_t size, std::size_t watermark);
  ~RegionPool();
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;

  // nullptr if all are in use. The peer may write there.
  ibv_mr* map(void* buffer, std::size_t bytes);
  void unmap(ibv_mr* region);

  [[nodiscard]] std::size_t flushes() const { return flushes_; }

 private:
  void flush();

  ibv_pd* pd_;
  std::size_t size_, watermark_;
  std::size_t used_ = 0;
  std::vector<ibv_mr*> dirty_;
  std::size_t flushes_ = 0;
};
