// The kernel interface below an ethdev of af_packet, af_xdp or tap: reports its problems, and
// recreates the device when the interface is back. Control thread only.

#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "dataplane/port/ethdev/ethdev_port.h"
#include "dataplane/wire/path_mtu.h"

namespace uroce {

// Records the interface of the device that has just been opened.
void EthdevPort::note_interface() {
  rte_eth_dev_info about{};
  std::array<char, IF_NAMESIZE> name{};
  if (!vdev_.on_interface || rte_eth_dev_info_get(id_, &about) != 0 ||
      ::if_indextoname(about.if_index, name.data()) == nullptr) {
    return;
  }
  interface_ = name.data();
  interface_index_ = about.if_index;
  rte_ether_addr mac{};
  if (rte_eth_macaddr_get(id_, &mac) == 0) {
    mac_.emplace();
    std::copy_n(mac.addr_bytes, mac_->bytes.size(), mac_->bytes.begin());
  }
}

// Receives all multicast frames, among them IPv6 neighbour discovery. Drivers on top of a kernel
// interface don't support enabling it, and the interface's filter may drop groups that nobody has
// joined (a macvlan's does, a veth's doesn't). So a packet socket joins all groups for them; with
// protocol 0 it receives nothing itself, and closing it undoes this.
Status EthdevPort::enable_all_multicast() {
  if (rte_eth_allmulticast_enable(id_) == 0 || interface_.empty()) {
    return ok();
  }
  all_multicast_ = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(interface_index_);
  all.mr_type = PACKET_MR_ALLMULTI;
  if (::setsockopt(all_multicast_.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) !=
      0) {
    const int refused = errno;
    return error(refused, "the interface " + interface_ + " doesn't pass multicast frames on");
  }
  return ok();
}

// `found`: the present state of the interface. REQUIRES: the port is on one.
std::string EthdevPort::trouble(const std::optional<HostInterface>& found) const {
  if (std::string trouble = interface_trouble(interface_, found, packet_bytes_max(options_.mtu));
      !trouble.empty()) {
    return trouble;
  }
  if (!not_attached_.empty()) {
    return not_attached_;
  }
  if (found->index != interface_index_ || found->mac != mac_) {
    return "the interface " + interface_ + " has been made anew, or has another Ethernet address";
  }
  return {};
}

bool EthdevPort::detach() { return !interface_.empty() && up_.exchange(false); }

// An af_packet device is always recreated, because it leaves a frame that was too long for the
// interface in its ring for ever; others only if their sockets are bound to an interface that is
// gone.
Result<bool> EthdevPort::attach() {
  if (interface_.empty() || up_.load()) {
    return false;
  }
  const auto found = host_interface(interface_);
  // A tap interface belongs to its driver: only the driver recreates it.
  const bool makes_it = !found && device_name_.starts_with("net_tap");
  const std::string wrong = interface_trouble(interface_, found, packet_bytes_max(options_.mtu));
  if (!wrong.empty() && !makes_it) {
    not_attached_.clear();
    return Error{ENETDOWN, wrong};
  }
  const bool same = found && found->index == interface_index_ && found->mac == mac_ &&
                    id_ != RTE_MAX_ETHPORTS && started_;
  if (same && device_name_.find("af_packet") == std::string::npos) {
    up_.store(true, std::memory_order_release);
    return true;
  }
  close_device();
  const Status opened = bring_up(vdev_);
  not_attached_ = opened ? std::string{} : opened.error().message;
  if (!opened) {
    close_device();
    return opened.error();
  }
  return true;
}

void EthdevPort::close_device() {
  if (id_ == RTE_MAX_ETHPORTS) {
    return;
  }
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) == 0) {
    missed_before_ += stats.imissed + stats.ierrors + stats.rx_nombuf;
  }
  if (started_) {
    rte_eth_dev_stop(id_);
    started_ = false;
  }
  rte_eth_dev_close(id_);
  all_multicast_.reset();
  rte_eal_hotplug_remove("vdev", device_name_.c_str());
  id_ = RTE_MAX_ETHPORTS;
  for (const auto& queue : queues_) {
    queue->wait_descriptor = -1;
    queue->interrupts = false;
  }
}

}  // namespace uroce
