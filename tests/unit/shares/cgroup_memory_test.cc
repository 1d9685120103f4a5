// Memory limits of control groups, in folders laid out like the kernel's.

#include "shares/cgroup_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace uroce {
namespace {

class CgroupMemory : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path(folder_ / name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  [[nodiscard]] std::uint64_t limit() const {
    return cgroup_memory(folder_ / "cgroup", folder_ / "fs");
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(CgroupMemory, IsTheLeastOfTheGroupAndItsAncestors) {
  write("cgroup", "0::/system.slice/uroced.service");
  write("fs/system.slice/memory.max", "300000000");
  write("fs/system.slice/uroced.service/memory.max", "max");
  EXPECT_EQ(limit(), 300'000'000U);
  write("fs/system.slice/uroced.service/memory.max", "200000000");
  EXPECT_EQ(limit(), 200'000'000U);
  write("fs/system.slice/uroced.service/memory.high", "100000000");
  EXPECT_EQ(limit(), 100'000'000U) << "beyond it the kernel throttles processes";
}

TEST_F(CgroupMemory, OfAContainerIsThatOfItsRoot) {
  write("cgroup", "0::/");
  write("fs/memory.max", "134217728");
  EXPECT_EQ(limit(), 134'217'728U);
}

// A container's cgroup v1 mount shows only its own group, though its path is the host's.
TEST_F(CgroupMemory, OfVersion1) {
  write("cgroup", "5:cpu,cpuacct:/docker/1b9a\n4:hugetlb,memory:/docker/1b9a\n0::/");
  write("fs/memory/memory.limit_in_bytes", "67108864");
  write("fs/cpu/memory.limit_in_bytes", "1");
  EXPECT_EQ(limit(), 67'108'864U);
  write("fs/memory/docker/1b9a/memory.limit_in_bytes", "33554432");
  EXPECT_EQ(limit(), 33'554'432U);
}

TEST_F(CgroupMemory, IsUnlimitedWithoutASetting) {
  EXPECT_EQ(limit(), kMemoryUnlimited);
  write("cgroup", "nonsense\n4:\n4:memory\n4:memory:relative\n0::/one");
  EXPECT_EQ(limit(), kMemoryUnlimited);
  write("fs/memory.max", "max");
  EXPECT_EQ(limit(), kMemoryUnlimited);
}

}  // namespace
}  // namespace uroce
