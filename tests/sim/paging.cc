#include "tests/sim/paging.h"

#include <algorithm>

namespace uroce::sim {
namespace {

constexpr std::uint32_t kDelayMax = 60'000;   // ns
constexpr std::uint32_t kChangeMax = 20'000;  // ns that an invalidation lasts
constexpr std::uint32_t kPagesChanged = 8;
constexpr std::size_t kOpenMax = 3;

}  // namespace

Paging::Paging(Arena& arena, Quiescence& quiescence, std::uint64_t seed)
    : arena_(arena),
      random_(seed),
      mirror_(std::make_shared<Mirror>(quiescence, UniqueFd())),
      delay_max_(random_.range(0, kDelayMax)),
      changes_(random_.chance(0.2) ? 0 : 0.05 * random_.range(0, 100) / 100),
      implicit_(random_.chance(0.5)) {
  if (random_.chance(0.7)) {
    mirror_->faults_only();
  }
}

bool Paging::turn(Time now, bool may_change) {
  now_ = now;
  bool busy = end_changes();
  if (may_change && random_.chance(changes_)) {
    begin_change();
    busy = true;
  }
  if (pager_.deadline() <= now_) {
    pager_.expire(now_);
  }
  if (random_.chance(0.7)) {
    busy |= pager_.serve(now_);
  }
  if (!orders_.empty()) {
    const auto order = std::move(orders_.front());
    orders_.pop_front();
    order();
  }
  const auto due = std::find_if(questions_.begin(), questions_.end(),
                                [&](const Question& asked) { return asked.answer_at <= now_; });
  if (due != questions_.end()) {
    const Question question = *due;
    questions_.erase(due);
    answer(question);
  }
  return busy || !queue_.empty() || queue_.has_resumed(0) || !questions_.empty() ||
         !orders_.empty() || !open_.empty();
}

bool Paging::ask(Mirror& /*mirror*/, std::uint64_t first, std::uint64_t end, bool /*write*/,
                 std::uint32_t sequence) {
  questions_.push_back(
      {.first = first,
       .end = end,
       .sequence = sequence,
       .answer_at = now_ + random_.range(0, static_cast<std::uint32_t>(delay_max_)),
       .changes = mirror_->changes()});
  return true;
}

void Paging::forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first, std::uint64_t end) {
  orders_.push_back([=, this] {
    mirror->invalidate(0, first, end, true);
    mirror->unblock(0);
    pager_.changed(mirror, now_);
  });
}

void Paging::retry_faults(const std::shared_ptr<Mirror>& mirror) {
  orders_.push_back([=, this] { pager_.changed(mirror, now_); });
}

// The state at this moment, in flight to the daemon: it may be outdated when it arrives.
void Paging::answer(const Question& question) {
  orders_.push_back([this, question, pieces = describe(question.first, question.end)] {
    overtaken_ += mirror_->changed(question.changes, question.first, question.end) ? 1 : 0;
    pager_.answered(mirror_, question.sequence, question.end, pieces, now_);
  });
}

std::vector<MirrorPiece> Paging::describe(std::uint64_t first, std::uint64_t end) const {
  std::vector<MirrorPiece> pieces;
  for (std::size_t page = 0; page < arena_.pages(); ++page) {
    const std::uint64_t address = arena_.address(page * Arena::kPage);
    if (address >= first && address < end) {
      pieces.push_back({.address = address,
                        .length = Arena::kPage,
                        .descriptor = arena_.file(),
                        .offset = arena_.place(page) * Arena::kPage,
                        .write = true,
                        .anonymous = true});
    }
  }
  return pieces;
}

// The program takes a few pages away and gives them back a little later, in the same place or
// another.
void Paging::begin_change() {
  const auto pages = static_cast<std::uint32_t>(arena_.pages());
  const std::uint32_t first = random_.range(0, pages - 1);
  const std::uint32_t end = std::min(pages, first + random_.range(1, kPagesChanged));
  if (random_.chance(0.2)) {
    mirror_->evict(Arena::kPage * random_.range(1, pages));
    mirror_->tick();
    return;
  }
  if (open_.size() >= kOpenMax) {
    return;
  }
  ++invalidations_;
  const bool move = random_.chance(0.6);
  const std::uint32_t block = next_block_++;
  mirror_->invalidate(block, arena_.address(first * Arena::kPage),
                      arena_.address(end * Arena::kPage), move);
  for (std::uint32_t page = first; move && page < end; ++page) {
    arena_.move(page);
  }
  open_.push_back({block, now_ + random_.range(0, kChangeMax)});
}

bool Paging::end_changes() {
  bool ended = false;
  for (const Change& change : open_) {
    if (change.over_at <= now_) {
      mirror_->unblock(change.block);
      retry_faults(mirror_);
      ended = true;
    }
  }
  std::erase_if(open_, [this](const Change& change) { return change.over_at <= now_; });
  return ended;
}

}  // namespace uroce::sim
