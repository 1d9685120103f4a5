#include "dataplane/port/ethdev/pci_device.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace uroce::test {
namespace {

const std::string kAddress = "0000:00:03.0";

// Folders as the kernel fills them.
class PciDeviceTest : public testing::Test {
 protected:
  PciDeviceTest() { std::filesystem::create_directories(folder_ / "dev/vfio"); }

  void given_device(const std::string& driver) {
    const auto device = folder_ / "sys/bus/pci/devices" / kAddress;
    std::filesystem::create_directories(device);
    if (!driver.empty()) {
      std::filesystem::create_symlink("../../../bus/pci/drivers/" + driver, device / "driver");
    }
    std::filesystem::create_directories(group());
    std::filesystem::create_symlink(folder_ / "sys/kernel/iommu_groups/7", device / "iommu_group");
  }
  void given_in_group(const std::string& address, const std::string& driver) {
    std::filesystem::create_directories(group() / address);
    std::filesystem::create_symlink("../drivers/" + driver, group() / address / "driver");
  }
  static void make_file(const std::filesystem::path& path) { const std::ofstream made(path); }
  [[nodiscard]] std::filesystem::path group() const {
    return folder_ / "sys/kernel/iommu_groups/7/devices";
  }
  [[nodiscard]] std::string trouble() const {
    return pci_device_trouble(kAddress, folder_ / "sys", folder_ / "dev");
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_{temporary_.path()};
};

TEST(PciAddress, TheDomainIsAdded) {
  EXPECT_EQ(full_pci_address("00:03.0"), kAddress);
  EXPECT_EQ(full_pci_address(kAddress), kAddress);
}

TEST_F(PciDeviceTest, NoneHasThisAddress) {
  EXPECT_EQ(trouble(), "this machine has no PCI device with this address (lspci -D lists them)");
}

TEST_F(PciDeviceTest, ADeviceWithoutADriverIsToBeBound) {
  given_device("");
  EXPECT_EQ(trouble(),
            "no driver has this device; bind it to one that leaves it to programs: "
            "dpdk-devbind.py --bind=vfio-pci 0000:00:03.0");
}

TEST_F(PciDeviceTest, TheKernelsDriverIsNamed) {
  given_device("e1000e");
  EXPECT_EQ(trouble(),
            "the kernel's driver e1000e has this device; take it from the kernel: "
            "dpdk-devbind.py --bind=vfio-pci 0000:00:03.0");
}

TEST_F(PciDeviceTest, ADeviceThatIsBoundAsItShouldBePointsAtTheLinesOfDpdk) {
  given_device("mlx5_core");
  EXPECT_TRUE(trouble().starts_with("no driver of DPDK could use this device; see its lines above"))
      << trouble();
}

TEST_F(PciDeviceTest, TheFileOfItsGroupHasToBeAccessible) {
  given_device("vfio-pci");
  const std::string file = folder_ / "dev/vfio/7";
  EXPECT_NE(trouble().find("; " + file + ": No such file"), std::string::npos) << trouble();
  make_file(file);
  EXPECT_EQ(trouble().find(file), std::string::npos) << trouble();
}

TEST_F(PciDeviceTest, AllDevicesOfAGroupHaveToBeTakenFromTheKernel) {
  given_device("vfio-pci");
  make_file(folder_ / "dev/vfio/7");
  given_in_group("0000:00:03.0", "vfio-pci");
  given_in_group("0000:00:1c.0", "pcieport");
  EXPECT_EQ(trouble().find("same IOMMU group"), std::string::npos) << trouble();
  given_in_group("0000:00:03.1", "e1000e");
  EXPECT_NE(trouble().find("; the kernel drives 0000:00:03.1 (e1000e) of the same IOMMU group"),
            std::string::npos)
      << trouble();
}

TEST_F(PciDeviceTest, WithoutAnIommuTheFileHasAnotherName) {
  given_device("vfio-pci");
  make_file(folder_ / "dev/vfio/noiommu-7");
  EXPECT_EQ(trouble().find("dev/vfio"), std::string::npos) << trouble();
}

}  // namespace
}  // namespace uroce::test
