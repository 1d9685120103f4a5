#include "apps/capture/pcapng_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "apps/replay/capture_file.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::capture {
namespace {

// libpcap reads it back.
TEST(PcapngWriter, WritesWhatLibpcapReads) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "x.pcapng";
  {
    auto writer = PcapngWriter::open(path, "test");
    ASSERT_TRUE(writer);
    writer->add_interface("uroce0", 9'000);
    writer->add_interface("a longer name", 9'000);
    for (std::size_t length = 0; length < 70; ++length) {
      const std::vector<std::byte> bytes(length, static_cast<std::byte>(length));
      writer->add({.interface = static_cast<std::uint32_t>(length % 2),
                   .time_ns = 1'700'000'000'123'456'789U + length,
                   .bytes = bytes,
                   .frame_length = static_cast<std::uint32_t>(length),
                   .outbound = length % 3 == 0,
                   .comments = {std::string(length, 'c')}});
    }
    writer->add_statistics(0, 1, 70, 3);
    EXPECT_TRUE(writer->flush());
  }
  const auto read = replay::read_capture(path);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 70U);
  for (std::size_t length = 0; length < 70; ++length) {
    EXPECT_EQ((*read)[length].time, 1'700'000'000'123'456'789U + length);
    EXPECT_EQ((*read)[length].bytes,
              std::vector<std::byte>(length, static_cast<std::byte>(length)));
  }
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 0777;
}

// It has what other programs sent.
TEST(PcapngWriter, ANewFileIsForItsUserOnly) {
  const test::TemporaryFolder folder;
  const mode_t before = ::umask(0);
  EXPECT_TRUE(PcapngWriter::open(folder / "x.pcapng", "test"));
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "x.pcapng"), 0600U);
}

TEST(PcapngWriter, AFileThatExistsKeepsItsMode) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "x.pcapng";
  EXPECT_TRUE(PcapngWriter::open(path, "test"));
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_TRUE(PcapngWriter::open(path, "test"));
  EXPECT_EQ(mode_of(path), 0640U);
}

TEST(PcapngWriter, SaysWhatItCantOpen) {
  const auto writer = PcapngWriter::open("/nonexistent/x.pcapng", "test");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, "/nonexistent/x.pcapng: No such file or directory");
}

}  // namespace
}  // namespace uroce::capture
