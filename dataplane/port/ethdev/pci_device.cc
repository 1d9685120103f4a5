#include "dataplane/port/ethdev/pci_device.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/capabilities.h"
#include "dataplane/port/ethdev/port_rights.h"

namespace uroce {
namespace {

// The kernel's drivers that leave a device to a program.
constexpr std::array<std::string_view, 3> kForPrograms = {"vfio-pci", "uio_pci_generic", "igb_uio"};
// Those that share it with DPDK's drivers of the same cards.
constexpr std::array<std::string_view, 3> kSharing = {"mlx5_core", "mlx4_core", "mana"};
// With less, even a small card's buffers can't be mapped for it (VFIO counts them as locked).
constexpr rlim_t kLockedMin = 256U << 20U;

// The last part of what a link of sysfs refers to; empty if there is none.
std::string link_target(const std::string& link) {
  std::error_code none;
  return std::filesystem::read_symlink(link, none).filename().string();
}

// One of a group that the kernel drives, with its driver. Bridges may stay with it.
std::string kernel_device_of(const std::string& devices) {
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator(devices, none)) {
    const std::string driver = link_target(device.path() / "driver");
    if (!driver.empty() && driver != "pcieport" && driver != "pci-stub" &&
        !driver.starts_with("vfio-")) {
      return device.path().filename().string() + " (" + driver + ")";
    }
  }
  return {};
}

std::string bind_command(const std::string& address) {
  return "dpdk-devbind.py --bind=vfio-pci " + address;
}

// What this process lacks to use a device that is bound to VFIO. With an IOMMU no capability is
// needed; `device` is its folder in sysfs.
std::string missing_for_vfio(const std::string& address, const std::string& device,
                             const std::string& dev) {
  const std::string group = link_target(device + "/iommu_group");
  if (access((dev + "/vfio/noiommu-" + group).c_str(), F_OK) == 0) {
    return missing_rights(address);
  }
  const std::string file = dev + "/vfio/" + group;
  if (access(file.c_str(), R_OK | W_OK) != 0) {
    return errno == EACCES ? "; this user may not open " + file
                           : "; " + file + ": " + std::generic_category().message(errno);
  }
  if (const std::string other = kernel_device_of(device + "/iommu_group/devices"); !other.empty()) {
    return "; the kernel drives " + other +
           " of the same IOMMU group, all of whose devices are to be taken from it";
  }
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if ((effective_capabilities() & capability_bit(CAP_IPC_LOCK)) == 0 &&
      locked.rlim_cur < kLockedMin) {
    return "; its buffers count as locked memory, of which this user may have " +
           std::to_string(locked.rlim_cur / 1'024) +
           " KiB: raise `ulimit -l` (LimitMEMLOCK= of a systemd unit)";
  }
  return {};
}

}  // namespace

std::string full_pci_address(std::string_view address) {
  constexpr std::size_t kShort = 7;
  return (address.size() == kShort ? "0000:" : "") + std::string(address);
}

std::string pci_device_trouble(const std::string& address, const std::string& sysfs,
                               const std::string& dev) {
  const std::string device = sysfs + "/bus/pci/devices/" + address;
  if (access(device.c_str(), F_OK) != 0) {
    return "this machine has no PCI device with this address (lspci -D lists them)";
  }
  const std::string driver = link_target(device + "/driver");
  if (driver.empty()) {
    return "no driver has this device; bind it to one that leaves it to programs: " +
           bind_command(address);
  }
  const auto is_driver = [&driver](std::string_view name) { return name == driver; };
  const bool for_programs = std::any_of(kForPrograms.begin(), kForPrograms.end(), is_driver);
  if (!for_programs && std::none_of(kSharing.begin(), kSharing.end(), is_driver)) {
    return "the kernel's driver " + driver +
           " has this device; take it from the kernel: " + bind_command(address);
  }
  return "no driver of DPDK could use this device; see its lines above" +
         (driver == "vfio-pci" ? missing_for_vfio(address, device, dev) : missing_rights(address));
}

}  // namespace uroce
