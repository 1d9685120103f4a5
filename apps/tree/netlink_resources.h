#pragma once

// The objects of programs, as netlink lists them.

#include <functional>
#include <string_view>
#include <vector>

#include "apps/tree/netlink_answers.h"
#include "apps/tree/netlink_message.h"

namespace uroce {

// Writes one object's attributes into the message.
using ResourceEntry = std::function<void(NetlinkMessage*)>;

// A kind of object that a dump lists.
struct ResourceKind {
  std::uint32_t command;       // RDMA_NLDEV_CMD_RES_*_GET
  std::uint16_t table, entry;  // RDMA_NLDEV_ATTR_RES_*
  std::vector<ResourceEntry> (*list)(const CardView& card, const nlohmann::ordered_json& report);
};
// nullptr: there is none with this command.
const ResourceKind* find_resource_kind(std::uint32_t command);

// What queue pairs count, each by itself.
const ResourceKind& counters_kind();
void write_counter(std::string_view name, std::uint64_t value, NetlinkMessage* message);

// How many of each there are: "qp" and so on.
std::vector<std::pair<const char*, std::uint64_t>> resource_summary(
    const CardView& card, const nlohmann::ordered_json& report);

}  // namespace uroce
