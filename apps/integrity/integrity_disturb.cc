#include "apps/integrity/integrity_disturb.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace integrity {
namespace {

constexpr std::chrono::microseconds kPause(50);

}  // namespace

Disturber::Disturber(std::vector<Memory*> memories) : memories_(std::move(memories)) {
  if (!memories_.empty()) {
    thread_ = std::thread([this] { run(); });
  }
}

Disturber::~Disturber() { stop(); }

void Disturber::stop() {
  stop_.store(true);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Disturber::run() {
  for (std::uint64_t turn = 0; !stop_.load(); ++turn) {
    Memory& memory = *memories_[turn % memories_.size()];
    if (memory.in_file()) {
      disturb_file(memory, turn);
    } else {
      disturb_spare(memory, turn);
    }
    changes_.fetch_add(1);
    // A loop without a pause would keep the daemon from its processor where there are few.
    std::this_thread::sleep_for(kPause);
  }
}

void Disturber::disturb_file(Memory& memory, std::uint64_t turn) {
  const std::size_t pages = memory.length() / Memory::kPage;
  const std::size_t first = turn * 7 % pages;
  const std::size_t count = std::min<std::size_t>(1 + turn % 64, pages - first);
  if (turn % 3 == 0) {
    memory.drop(first * Memory::kPage, count * Memory::kPage);
  } else {
    memory.map_again(first * Memory::kPage, count * Memory::kPage);
  }
}

void Disturber::disturb_spare(Memory& memory, std::uint64_t turn) {
  constexpr std::size_t kBytes = Memory::kSparePages * Memory::kPage;
  std::uint8_t* const spare = memory.spare();
  const auto offset = static_cast<std::size_t>(spare - memory.data());
  if (turn % 2 == 0) {
    memory.drop(offset, kBytes);
  } else {
    memory.replace(offset, kBytes);
  }
  const auto fill = static_cast<std::uint8_t>(1 + turn % 255);
  const auto zeroes = std::count(spare, spare + kBytes, 0);
  std::memset(spare, fill, kBytes);
  const auto filled = std::count(spare, spare + kBytes, fill);
  errors_.fetch_add(2 * kBytes - static_cast<std::uint64_t>(zeroes + filled));
}

}  // namespace integrity
