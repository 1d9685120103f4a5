#pragma once

// A stand-in for a program whose memory is paged on demand: its pages are a memfd, and its answers
// are given when the test says so.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"
#include "mmu/mirror/mirror.h"
#include "mmu/pager/pager.h"
#include "mmu/quiescence.h"

namespace uroce::test {

class PagedProgram final : public PagingPeer {
 public:
  static constexpr std::uint64_t kBase = 0x7000'0000'0000;

  explicit PagedProgram(Quiescence& quiescence, std::uint64_t chunks = 4)
      : mirror(std::make_shared<Mirror>(quiescence, UniqueFd())),
        length(chunks * Mirror::kChunk),
        memfd(::memfd_create("paged-program", MFD_CLOEXEC)) {
    UROCE_CHECK(::ftruncate(memfd.get(), static_cast<off_t>(length)) == 0);
    void* const pages = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
    UROCE_CHECK(pages != MAP_FAILED);
    memory = static_cast<std::byte*>(pages);
  }
  ~PagedProgram() override { ::munmap(memory, length); }

  // All of its memory, as one piece.
  [[nodiscard]] MirrorPiece everything() const {
    return {.address = kBase,
            .length = length,
            .descriptor = memfd.get(),
            .write = !read_only,
            .anonymous = !a_file};
  }

  bool ask(Mirror& /*asked*/, std::uint64_t first, std::uint64_t end, bool /*write*/,
           std::uint32_t sequence) override {
    if (dead) {
      return false;
    }
    questions.push_back({first, end, sequence});
    return true;
  }
  void forget(const std::shared_ptr<Mirror>& of, std::uint64_t first, std::uint64_t end) override {
    orders.push_back([=, this] {
      of->invalidate(0, first, end, true);
      of->unblock(0);
      pager->changed(of, now);
    });
  }
  void retry_faults(const std::shared_ptr<Mirror>& of) override {
    orders.push_back([=, this] { pager->changed(of, now); });
  }

  Time clock() override { return now; }
  void in_background(bool begins) override {
    background = begins;
    backgrounds += begins ? 1 : 0;
  }

  // Answers the oldest question correctly.
  void answer() {
    const Question question = questions.front();
    questions.pop_front();
    std::vector<MirrorPiece> pieces;
    if (mapped) {
      pieces.push_back(everything());
    }
    pager->answered(mirror, question.sequence, question.end, pieces, now);
  }
  // Runs everything until nothing is left to do.
  void settle() {
    for (bool busy = true; busy;) {
      busy = pager->serve(now);
      if (!questions.empty()) {
        answer();
        busy = true;
      }
      if (!orders.empty()) {
        const auto order = orders.front();
        orders.pop_front();
        order();
        busy = true;
      }
    }
  }

  struct Question {
    std::uint64_t first, end;
    std::uint32_t sequence;
  };

  std::shared_ptr<Mirror> mirror;
  Pager* pager = nullptr;
  std::uint64_t length;
  UniqueFd memfd;
  std::byte* memory = nullptr;
  std::deque<Question> questions;
  std::deque<std::function<void()>> orders;
  bool mapped = true;
  bool read_only = false;
  bool a_file = false;  // rather than an arena
  bool dead = false;
  bool background = false;
  std::uint32_t backgrounds = 0;
  Time now = 1'000;
};

}  // namespace uroce::test
