#include "apps/tree/card_files.h"

#include <cstdarg>
#include <cstdio>

namespace uroce {
namespace {

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char line[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  return std::string(line) + "\n";
}

struct Named {
  std::uint32_t value;
  const char* name;
};

const char* name_of(std::span<const Named> names, std::uint32_t value, const char* otherwise) {
  for (const Named& one : names) {
    if (one.value == value) {
      return one.name;
    }
  }
  return otherwise;
}

constexpr Named kStates[] = {{0, "NOP"},   {1, "DOWN"},   {2, "INIT"},
                             {3, "ARMED"}, {4, "ACTIVE"}, {5, "ACTIVE_DEFER"}};
constexpr Named kPhysStates[] = {
    {1, "Sleep"},  {2, "Polling"},           {3, "Disabled"}, {4, "PortConfigurationTraining"},
    {5, "LinkUp"}, {6, "LinkErrorRecovery"}, {7, "Phy Test"}};

// Of ibv_port_attr: in tenths of Gb/s a lane.
struct Speed {
  std::uint32_t code, rate;
  const char* name;
};
constexpr Speed kSpeeds[] = {{1, 25, ""},        {2, 50, " DDR"},    {4, 100, " QDR"},
                             {8, 100, " FDR10"}, {16, 140, " FDR"},  {32, 250, " EDR"},
                             {64, 500, " HDR"},  {128, 1000, " NDR"}};

std::string rate(const CardView& card) {
  constexpr std::uint32_t kLanes[][2] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  std::uint32_t lanes = 1;
  for (const auto& [code, count] : kLanes) {
    lanes = code == card.width ? count : lanes;
  }
  Speed speed = kSpeeds[0];  // as the kernel does for a code that it doesn't know
  for (const Speed& one : kSpeeds) {
    speed = one.code == card.speed ? one : speed;
  }
  const std::uint32_t tenths = speed.rate * lanes;
  return text("%u%s Gb/sec (%uX%s)", tenths / 10, tenths % 10 != 0 ? ".5" : "", lanes, speed.name);
}

std::string gid_text(const CardView::Gid& gid) {
  std::string line;
  char part[8];
  for (std::size_t i = 0; i < gid.size(); i += 2) {
    std::snprintf(part, sizeof(part), "%s%02x%02x", i == 0 ? "" : ":", gid[i], gid[i + 1]);
    line += part;
  }
  return line + "\n";
}

// Of what happens here under the same name in `CardView::port_counters`; data is counted in words
// of four bytes.
struct PortCounter {
  const char* file;
  const char* name;  // nullptr: this can't happen on Ethernet, or to software
  std::uint64_t unit;
};
constexpr PortCounter kPortCounters[] = {
    {"port_xmit_data", "tx_bytes", 4},
    {"port_rcv_data", "rx_bytes", 4},
    {"port_xmit_packets", "tx_frames", 1},
    {"port_rcv_packets", "rx_frames", 1},
    {"port_xmit_discards", "tx_failed", 1},
    {"port_rcv_errors", "rx_missed", 1},
    {"port_xmit_wait", nullptr, 1},
    {"symbol_error", nullptr, 1},
    {"link_error_recovery", nullptr, 1},
    {"port_rcv_remote_physical_errors", nullptr, 1},
    {"port_rcv_switch_relay_errors", nullptr, 1},
    {"port_xmit_constraint_errors", nullptr, 1},
    {"port_rcv_constraint_errors", nullptr, 1},
    {"local_link_integrity_errors", nullptr, 1},
    {"excessive_buffer_overrun_errors", nullptr, 1},
    {"VL15_dropped", nullptr, 1},
};
// Of hardware's hw_counters: what can't happen here. There are no DC queue pairs, nothing starts
// slowly, and a retransmission that adapts ends with the ordinary timer.
constexpr const char* kNeverCounted[] = {"rx_dct_connect", "roce_slow_restart",
                                         "roce_slow_restart_cnps", "roce_slow_restart_trans",
                                         "roce_adp_retrans_to"};
constexpr unsigned kLifespanMs = 1000;  // how old a value may be

// One folder of the tree, in which files get their texts.
class Folder {
 public:
  Folder(TreeContents* tree, std::string path) : tree_(tree), path_(std::move(path)) {}
  void file(const std::string& name, std::string content) const {
    tree_->files[path_ + "/" + name] = std::move(content);
  }
  void link(const std::string& name, std::string target) const {
    tree_->links[path_ + "/" + name] = std::move(target);
  }
  [[nodiscard]] Folder below(const std::string& name) const { return {tree_, path_ + "/" + name}; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  TreeContents* tree_;
  std::string path_;
};

void add_counters(const CardView& card, const Folder& port) {
  const Folder plain = port.below("counters");
  for (const PortCounter& counter : kPortCounters) {
    const std::uint64_t value =
        counter.name != nullptr ? card.port_counters.at(counter.name) / counter.unit : 0;
    plain.file(counter.file, std::to_string(value) + "\n");
  }
  const Folder hardware = port.below("hw_counters");
  for (const char* name : kNeverCounted) {
    hardware.file(name, "0\n");
  }
  for (const auto& [name, value] : card.hw_counters) {
    hardware.file(name, std::to_string(value) + "\n");
  }
  hardware.file("lifespan", std::to_string(kLifespanMs) + "\n");
}

// An empty place of the table has zeroes for a GID; its attributes can't be read.
void add_gids(const CardView& card, const Folder& port) {
  const Folder gids = port.below("gids");
  for (std::uint32_t index = 0; index < card.gid_count; ++index) {
    gids.file(std::to_string(index), gid_text({}));
  }
  for (const auto& [index, gid] : card.gids) {
    const std::string name = std::to_string(index);
    gids.file(name, gid_text(gid));
    port.below("gid_attrs/types").file(name, "RoCE v2\n");
    if (!card.interface.empty()) {
      port.below("gid_attrs/ndevs").file(name, card.interface + "\n");
    }
  }
}

void add_port(const CardView& card, const Folder& port) {
  port.file("state", text("%u: %s", card.state, name_of(kStates, card.state, "UNKNOWN")));
  port.file("phys_state",
            text("%u: %s", card.phys_state, name_of(kPhysStates, card.phys_state, "<unknown>")));
  port.file("rate", rate(card));
  port.file("link_layer", "Ethernet\n");
  port.file("lid", "0x0\n");
  port.file("sm_lid", "0x0\n");
  port.file("lid_mask_count", "0\n");
  port.file("sm_sl", "0\n");
  port.file("cap_mask", "0x04010000\n");  // communication management, GIDs made of IP addresses
  for (std::uint32_t index = 0; index < card.pkey_count; ++index) {
    port.below("pkeys").file(std::to_string(index), index == 0 ? "0xffff\n" : "0x0000\n");
  }
  add_gids(card, port);
  add_counters(card, port);
}

// What a PCI function of the kernel's has, as far as it means something here.
void add_function(const CardView& card, const Folder& function) {
  function.file("vendor", text("0x%04x", card.vendor_id));
  function.file("device", text("0x%04x", card.vendor_part_id));
  function.file("subsystem_vendor", text("0x%04x", card.vendor_id));
  function.file("subsystem_device", text("0x%04x", card.vendor_part_id));
  function.file("revision", text("0x%02x", card.hardware & 0xFFU));
  function.file("class", "0x020000\n");  // an Ethernet controller
  function.file("numa_node", "-1\n");    // memory is as near from everywhere
  function.file("irq", "0\n");
  function.file("uevent", text("DRIVER=uroce\nPCI_CLASS=20000\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=%s",
                               card.vendor_id, card.vendor_part_id, pci_address(card).c_str()));
  if (!card.interface.empty()) {
    function.below("net").link(card.interface, "/sys/class/net/" + card.interface);
  }
}

void add_card(const CardView& card, const Folder& root) {
  const std::string& name = card.name;
  const std::string place = "devices/" + pci_domain() + "/" + pci_address(card);
  const Folder function = root.below("sys/" + place);
  add_function(card, function);

  const Folder device = function.below("infiniband/" + name);
  device.file("node_type", "1: CA\n");
  device.file("node_guid", guid_text(card.guid) + "\n");
  device.file("sys_image_guid", guid_text(card.guid) + "\n");
  device.file("node_desc", name + "\n");
  device.file("fw_ver", card.firmware + "\n");
  device.file("hw_rev", text("%u", card.hardware));
  device.file("hca_type", "uroce\n");
  device.file("board_id", "uroce\n");
  device.link("device", "../../../" + pci_address(card));
  add_port(card, device.below("ports/1"));
  root.below("sys/class/infiniband").link(name, "../../" + place + "/infiniband/" + name);

  // libibverbs' view of the same card; there is no file of the kernel's behind its number.
  const Folder verbs = function.below("infiniband_verbs/" + name);
  verbs.file("ibdev", name + "\n");
  verbs.file("abi_version", "1\n");
  verbs.file("dev", "1:3\n");
  verbs.link("device", "../../../" + pci_address(card));
  root.below("sys/class/infiniband_verbs")
      .link(name, "../../" + place + "/infiniband_verbs/" + name);

  // Programs look whether it is a character device that they may open; nobody reads or writes it.
  root.below("dev/infiniband").link(name, "/dev/null");
  root.below("dev/infiniband").link("uverbs" + std::to_string(card.index), "/dev/null");
  if (!card.interface.empty()) {
    root.below("sys/class/net/" + card.interface + "/device")
        .link("infiniband", "../../../../" + place + "/infiniband");
  }
}

}  // namespace

TreeContents tree_contents(std::span<const CardView> cards) {
  TreeContents tree;
  const Folder root(&tree, "");
  for (const CardView& card : cards) {
    add_card(card, root);
  }
  root.below("sys/class/infiniband_verbs").file("abi_version", "6\n");
  root.below("sys/class/infiniband_mad").file("abi_version", "5\n");
  root.below("dev/infiniband").link("rdma_cm", "/dev/null");
  return tree;
}

}  // namespace uroce
