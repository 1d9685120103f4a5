#include "apps/examples/region_pool.h"

RegionPool::RegionPool(ibv_pd* pd, std::size_t size, std::size_t watermark)
    : pd_(pd), size_(size), watermark_(watermark) {
  dirty_.reserve(size);
}

RegionPool::~RegionPool() { flush(); }

ibv_mr* RegionPool::map(void* buffer, std::size_t bytes) {
  if (used_ + dirty_.size() == size_) {
    flush();
  }
  if (used_ == size_) {
    return nullptr;
  }
  ibv_mr* region = ibv_reg_mr(pd_, buffer, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  used_ += region != nullptr ? 1 : 0;
  return region;
}

void RegionPool::unmap(ibv_mr* region) {
  --used_;
  dirty_.push_back(region);
  if (dirty_.size() >= watermark_) {
    flush();
  }
}

void RegionPool::flush() {
  for (ibv_mr* region : dirty_) {
    ibv_dereg_mr(region);
  }
  flushes_ += dirty_.empty() ? 0 : 1;
  dirty_.clear();
}
