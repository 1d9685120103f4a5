#pragma once

// What a card's folders in /sys and /dev have in them, in the formats of Linux's kernel
// (Documentation/ABI/stable/sysfs-class-infiniband, drivers/infiniband/core/sysfs.c).

#include <map>
#include <span>
#include <string>

#include "apps/tree/card_view.h"

namespace uroce {

// Paths are those that programs use: "/sys/class/infiniband/uroce0/node_type".
struct TreeContents {
  std::map<std::string, std::string> files;  // path and text
  std::map<std::string, std::string> links;  // path and where it leads
};

TreeContents tree_contents(std::span<const CardView> cards);

}  // namespace uroce
