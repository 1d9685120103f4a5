#pragma once

// What a replay needs besides the frames: the cards that receive them, with queue pairs, regions
// and receives. Made from the capture (derive.h) or from a script (script.h).

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/work_request.h"
#include "apps/replay/flow.h"
#include "base/result.h"
#include "dataplane/qp/attributes.h"
#include "mmu/access.h"

namespace uroce::replay {

// A region is memory of ours. Untouched pages cost nothing.
inline constexpr std::uint64_t kRegionBytesMax = std::uint64_t{1} << 28U;
inline constexpr std::uint64_t kRegionsBytesMax = std::uint64_t{1} << 30U;  // of a card
inline constexpr std::size_t kObjectsMax = 4'096;  // queue pairs of a card; regions of a card

// Zeroes, mapped.
class Memory {
 public:
  // nullptr: there is no room for it.
  static std::shared_ptr<Memory> make(std::uint64_t length);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t length() const { return length_; }

 private:
  Memory(std::byte* data, std::uint64_t length) : data_(data), length_(length) {}
  std::byte* data_;
  std::uint64_t length_;
};

struct RegionPlan {
  std::string name{};
  std::uint32_t key = 0;
  std::uint64_t iova = 0;
  std::uint32_t access = 0;  // AccessFlags
  bool other_pd = false;
  std::shared_ptr<Memory> memory{};
};

struct QueuePlan {
  std::string name{};
  std::uint32_t qpn = 0;
  QpType type = QpType::kRc;
  QpState state = QpState::kRts;
  QpAttributes attributes{};
  std::optional<std::size_t> from_frame{};  // made when the replay comes to it; else at the start
};

// A receive that a script posts before the replay starts.
struct ReceivePlan {
  std::uint32_t qpn = 0;
  std::uint64_t wr_id = 0;
  std::vector<abi::Sge> places{};
};

// What a program wrote into its memory, as far as answers tell.
struct Refill {
  std::byte* to = nullptr;
  Bytes bytes{};
};

struct CardPlan {
  EtherAddress mac{};
  std::vector<Gid> addresses{};
  std::uint16_t vlan = 0;  // in which the card has them; 0: none
  std::vector<RegionPlan> regions{};
  std::vector<QueuePlan> queues{};
  std::vector<ReceivePlan> receives{};
  std::vector<std::string> questions{};  // of a script, answered when all frames have come
  std::uint32_t supplied_length = 0;     // bytes of the receives that supplies_receive asks for
};

struct Plan {
  std::vector<CardPlan> cards;
  std::vector<std::string> notes;  // what couldn't be had
  // By frame.
  std::map<std::size_t, std::vector<Refill>> refills;  // before it is received
  std::vector<bool> supplies_receive;  // a receive is posted for it unless one waits
  std::vector<bool> lost;              // it never arrived
};

}  // namespace uroce::replay
