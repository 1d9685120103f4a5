// A capture that comes through a pipe.

#include "apps/check/spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace uroce::check {
namespace {

constexpr std::string_view kWords = "what the pipe brings";

// The end of a pipe from which kWords can be read, as a file.
class Pipe {
 public:
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    out_.reset(ends[0]);
    const UniqueFd in(ends[1]);
    EXPECT_EQ(::write(in.get(), kWords.data(), kWords.size()), static_cast<ssize_t>(kWords.size()));
  }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(out_.get()); }

 private:
  UniqueFd out_;
};

TEST(Spool, APipeCanBeReadTwice) {
  const Pipe pipe;
  const auto source = open_source(pipe.path());
  ASSERT_TRUE(source) << source.error().message;
  for (int pass = 0; pass < 2; ++pass) {
    std::ifstream in(source->file);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), kWords);
  }
}

TEST(Spool, HasABound) {
  const Pipe exact, longer;
  EXPECT_TRUE(open_source(exact.path(), kWords.size()));
  const auto source = open_source(longer.path(), kWords.size() - 1);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, EFBIG);
  EXPECT_TRUE(source.error().message.ends_with("name a file")) << source.error().message;
}

TEST(Spool, AFileIsTakenAsItIs) {
  const auto source = open_source("/proc/self/exe");
  ASSERT_TRUE(source);
  EXPECT_EQ(source->file, "/proc/self/exe");
  EXPECT_FALSE(source->spooled.valid());
}

}  // namespace
}  // namespace uroce::check
