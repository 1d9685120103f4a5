#include "apps/replay/script.h"

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "apps/console/names.h"
#include "apps/console/words.h"
#include "dataplane/wire/psn.h"

namespace uroce::replay {
namespace {

using console::Place;
using console::Words;

constexpr std::size_t kScatterMax = 8;

Result<QpType> parse_type(const std::string& name) {
  for (const auto& [type, its_name] :
       {std::pair(QpType::kRc, "RC"), std::pair(QpType::kUc, "UC"), std::pair(QpType::kUd, "UD")}) {
    if (name == its_name) {
      return type;
    }
  }
  return Error{EINVAL, "`" + name + "` is not a queue pair type: RC, UC or UD"};
}

Result<QpState> parse_state(const std::string& name) {
  const auto state = console::parse_state(name);
  return state ? Result<QpState>(static_cast<QpState>(*state)) : Result<QpState>(state.error());
}

Result<std::uint32_t> parse_path_mtu(const std::string& text) {
  const auto bytes = console::parse_number(text);
  const auto mtu = bytes ? console::parse_mtu(*bytes) : Result<ibv_mtu>(bytes.error());
  return mtu ? Result<std::uint32_t>(static_cast<std::uint32_t>(*bytes))
             : Result<std::uint32_t>(mtu.error());
}

Result<Gid> parse_peer(const std::string& text) {
  const auto gid = parse_ip(text);
  return gid ? Result<Gid>(*gid) : Error{EINVAL, "peer= takes an IP address, not `" + text + "`"};
}

class Reader {
 public:
  Reader(const std::vector<Flow>& flows, const std::vector<Gid>& addresses) : flows_(flows) {
    CardPlan card;
    card.addresses = addresses;
    for (const Flow& flow : flows) {
      const Gid& own = flow.path.source_gid;
      auto& all = card.addresses;
      if (addresses.empty() && std::find(all.begin(), all.end(), own) == all.end()) {
        all.push_back(own);
      }
      if (card.mac == EtherAddress{} && std::find(all.begin(), all.end(), own) != all.end()) {
        card.mac = flow.path.source_mac;
        card.vlan = vlan_id(flow.path.vlan);
      }
    }
    cards_.push_back(std::move(card));
  }

  Status read(const std::string& line) {
    Words words(line);
    if (words.empty()) {
      return ok();
    }
    const std::string verb = words.next_name();
    constexpr std::string_view kQuestions[] = {"memory", "show", "poll", "event", "counters"};
    if (std::find(std::begin(kQuestions), std::end(kQuestions), verb) != std::end(kQuestions)) {
      card().questions.push_back(line);
      return ok();
    }
    return verb == "card"     ? new_card(words)
           : verb == "region" ? region(words)
           : verb == "fill"   ? fill(words)
           : verb == "qp"     ? queue(words)
           : verb == "recv"   ? receive(words)
                              : Status(Error{EINVAL, std::string("`").append(verb) +
                                                       "` isn't a command of scripts"});
  }

  std::vector<CardPlan> take() { return std::move(cards_); }

 private:
  CardPlan& card() { return cards_.back(); }
  [[nodiscard]] const CardPlan& card() const { return cards_.back(); }

  // The first such line names the card that there is anyway.
  Status new_card(Words& words) {
    CardPlan plan;
    plan.vlan = vlan_id(static_cast<std::uint16_t>(words.number("vlan", 0)));
    const auto mac = parse_mac(words.text("mac", "00:00:00:00:00:00"));
    while (const auto text = words.text("ip")) {
      const auto gid = parse_ip(*text);
      if (!gid) {
        return Error{EINVAL, "ip= takes an IP address, not `" + *text + "`"};
      }
      plan.addresses.push_back(*gid);
    }
    if (Status status = words.check(); !status || !mac || plan.addresses.empty()) {
      return !status ? status : Error{EINVAL, "a card needs ip=, and mac= as aa:bb:cc:dd:ee:ff"};
    }
    plan.mac = *mac;
    if (named_) {
      cards_.push_back(std::move(plan));
    } else {
      cards_.back() = std::move(plan);
      named_ = true;
    }
    return ok();
  }

  Status region(Words& words) {
    RegionPlan plan;
    plan.name = words.next_name();
    plan.key = static_cast<std::uint32_t>(words.number("key"));
    plan.iova = words.number("iova");
    const std::uint64_t length = words.number("length");
    plan.access = words.parsed("access", "local+read+write+atomic", console::parse_access);
    const auto seed = words.number_if_there("seed");
    plan.other_pd = words.flag("other_pd");
    if (Status status = words.check(); !status) {
      return status;
    }
    std::uint64_t all = length;
    for (const RegionPlan& region : card().regions) {
      all += region.memory->length();
    }
    if (find_region(plan.name) != nullptr || plan.name.empty() || length == 0 ||
        length > kRegionBytesMax || all > kRegionsBytesMax ||
        card().regions.size() == kObjectsMax) {
      return Error{EINVAL, "a region needs a new name and a length up to " +
                               std::to_string(kRegionBytesMax) + "; all together up to " +
                               std::to_string(kRegionsBytesMax)};
    }
    plan.memory = Memory::make(length);
    if (plan.memory == nullptr) {
      return Error{ENOMEM, "there is no memory for " + std::to_string(length) + " bytes"};
    }
    for (std::uint64_t i = 0; seed && i < length; ++i) {
      plan.memory->data()[i] = console::pattern(*seed, i);
    }
    card().regions.push_back(std::move(plan));
    return ok();
  }

  Status fill(Words& words) {
    const auto place = console::parse_place(words.next_name());
    const auto text = words.text("hex");
    const std::uint64_t seed = text ? 0 : words.number("seed");
    const auto bytes = console::parse_bytes(text.value_or(""));
    if (Status status = words.check(); !status || !place || !bytes) {
      return !status ? status.error() : !place ? place.error() : bytes.error();
    }
    const auto sge = gather(*place);
    if (!sge || (text && bytes->size() != sge->length)) {
      return !sge ? sge.error() : Error{EINVAL, "hex= needs two digits for each byte of the place"};
    }
    std::byte* const to = find_region(place->region)->memory->data() + place->offset;
    for (std::uint32_t i = 0; i < sge->length; ++i) {
      to[i] = text ? (*bytes)[i] : console::pattern(seed, i);
    }
    return ok();
  }

  Status queue(Words& words) {
    QueuePlan plan;
    plan.name = words.next_name();
    plan.qpn = static_cast<std::uint32_t>(words.number("qpn"));
    plan.type = words.parsed("type", "RC", parse_type);
    plan.state = words.parsed("state", "RTS", parse_state);
    const Gid peer = words.parsed("peer", "", parse_peer);
    QpAttributes& attributes = plan.attributes;
    attributes.access = words.parsed("access", "read+write+atomic", console::parse_access);
    attributes.path_mtu = words.parsed("mtu", "1024", parse_path_mtu);
    attributes.dest_qpn = static_cast<std::uint32_t>(words.number("peer_qpn", 1));
    attributes.rq_psn = static_cast<std::uint32_t>(words.number("psn", 0)) & kPsnMask;
    attributes.qkey = static_cast<std::uint32_t>(words.number("qkey", 0x1111'1111));
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic =
        static_cast<std::uint8_t>(words.number("rd_atomic", 4));
    attributes.min_rnr_timer = static_cast<std::uint8_t>(words.number("rnr", 12) & 0x1FU);
    if (Status status = words.check(); !status) {
      return status;
    }
    const bool known = std::any_of(
        card().queues.begin(), card().queues.end(),
        [&](const QueuePlan& other) { return other.name == plan.name || other.qpn == plan.qpn; });
    if (plan.name.empty() || known || plan.qpn <= 1 || plan.qpn >= kMulticastQpn ||
        plan.state > QpState::kRts || card().queues.size() == kObjectsMax) {
      return Error{EINVAL,
                   "a queue pair needs a new name, a new number from 2 to 0xfffffe and a "
                   "state up to RTS"};
    }
    attributes.path = path_to(peer, plan);
    card().queues.push_back(std::move(plan));
    return ok();
  }

  Status receive(Words& words) {
    const std::string name = words.next_name();
    const auto number = console::parse_number(words.next_name());
    ReceivePlan plan;
    while (const auto text = words.text("to")) {
      const auto place = console::parse_place(*text);
      const auto sge = place ? gather(*place) : Result<abi::Sge>(place.error());
      if (!sge) {
        return sge.error();
      }
      plan.places.push_back(*sge);
    }
    if (Status status = words.check(); !status) {
      return status;
    }
    const auto queue = std::find_if(card().queues.begin(), card().queues.end(),
                                    [&](const QueuePlan& one) { return one.name == name; });
    if (queue == card().queues.end() || !number || plan.places.size() > kScatterMax) {
      return Error{EINVAL, "recv needs a queue pair of the script, a number, and at most " +
                               std::to_string(kScatterMax) + " places"};
    }
    plan.qpn = queue->qpn;
    plan.wr_id = *number;
    card().receives.push_back(std::move(plan));
    return ok();
  }

  const RegionPlan* find_region(const std::string& name) const {
    const auto found = std::find_if(card().regions.begin(), card().regions.end(),
                                    [&](const RegionPlan& region) { return region.name == name; });
    return found == card().regions.end() ? nullptr : &*found;
  }

  // The bytes of a place as work requests name them.
  Result<abi::Sge> gather(const Place& place) const {
    const RegionPlan* const region = find_region(place.region);
    if (region == nullptr) {
      return Error{EINVAL, "there is no region `" + place.region + "`"};
    }
    const std::uint64_t all = region->memory->length();
    if (place.offset > all || place.length.value_or(0) > all - place.offset) {
      return Error{ERANGE, "a place reaches beyond the " + std::to_string(all) + " bytes of `" +
                               place.region + "`"};
    }
    return abi::Sge{.address = region->iova + place.offset,
                    .length = static_cast<std::uint32_t>(place.length.value_or(all - place.offset)),
                    .lkey = region->key};
  }

  // As packets for it have it; else from our first address of the peer's family.
  Path path_to(const Gid& peer, const QueuePlan& plan) const {
    for (const Flow& flow : flows_) {
      if (flow.qpn == plan.qpn && (flow.path.destination_gid == peer || plan.type == QpType::kUd)) {
        return flow.path;
      }
    }
    Path path;
    path.source_mac = card().mac;
    path.destination_gid = peer;
    const auto own = std::find_if(card().addresses.begin(), card().addresses.end(),
                                  [&](const Gid& gid) { return gid.is_ipv4() == peer.is_ipv4(); });
    path.source_gid = own == card().addresses.end() ? Gid{} : *own;
    return path;
  }

  const std::vector<Flow>& flows_;
  std::vector<CardPlan> cards_;  // the last one is being written
  bool named_ = false;           // by a line `card`
};

}  // namespace

Result<Plan> read_script(const std::string& text, const std::vector<Flow>& flows,
                         const std::vector<Gid>& addresses) {
  Reader reader(flows, addresses);
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (Status status = reader.read(line); !status) {
      return Error{status.error().code,
                   "line " + std::to_string(number) + ": " + status.error().message};
    }
  }
  Plan plan;
  plan.cards = reader.take();
  return plan;
}

}  // namespace uroce::replay
