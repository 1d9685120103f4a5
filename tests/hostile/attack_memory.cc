// memory write|read USER: has the card write to, or read from, a page of this program's own
// file system (FUSE), which never answers. Root starts it, to mount for the user as fusermount
// does.

#include <linux/fuse.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/bench/parts/card.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/slow_file.h"

namespace uroce::hostile {
namespace {

constexpr std::uint64_t kNobody = 65'534;
constexpr std::size_t kPairs = 4;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kLength = 64;

}  // namespace

int attack_with_memory(Arguments arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments.front();
  if (what != "write" && what != "read") {
    give_up("memory write|read USER");
  }
  const SlowFile file({FUSE_READ}, static_cast<uid_t>(number(arguments, 1, kNobody)));
  void* const page = file.map();
  bench::BenchCard card;
  const bench::Pages pages(kPage);
  const auto held_back = card.register_range(page, kPage, false);
  const auto ordinary = card.register_range(pages.data(), kPage, false);
  std::vector<std::unique_ptr<bench::BenchPair>> pairs;
  for (std::size_t i = 0; i < kPairs; ++i) {
    pairs.push_back(std::make_unique<bench::BenchPair>(card));
  }
  // From here on the copying thread holds this program's mmap lock.
  for (const auto& pair : pairs) {
    for (std::size_t at = 0; at < kPage; at += kPage / bench::BenchPair::kDepth) {
      pair->post_write(what == "write" ? *ordinary : *held_back, at,
                       what == "write" ? *held_back : *ordinary, at, kLength);
    }
  }
  say_attacking();
  for (;;) {
    ::pause();
  }
}

}  // namespace uroce::hostile
