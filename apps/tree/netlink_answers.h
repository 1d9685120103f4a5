#pragma once

// What the kernel's RDMA netlink (drivers/infiniband/core/nldev.c) would answer of the daemon's
// cards, for `rdma link`, `rdma dev`, `rdma resource` and `rdma statistic`.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/tree/card_view.h"

namespace uroce {

// What there is to tell: `report` is the daemon's, `cards` what was read from it.
struct NetlinkKnowledge {
  std::span<const CardView> cards;
  const nlohmann::ordered_json& report;
};

// Of one question, datagram by datagram. Empty: it is none.
std::vector<std::string> answer_netlink(std::string_view question,
                                        const NetlinkKnowledge& knowledge);

}  // namespace uroce
