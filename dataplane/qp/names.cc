#include "dataplane/qp/names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "abi/names.h"
#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

template <std::size_t kSize>
std::string at(const std::array<std::string_view, kSize>& names, std::size_t index) {
  return index < kSize ? std::string(names[index]) : std::string("#").append(std::to_string(index));
}

}  // namespace

std::string name_of(Opcode opcode) {
  std::string name(opcode_info(opcode).name);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::optional<Opcode> opcode_by_name(std::string_view name) {
  for (std::size_t i = 0; i < kOpcodeTable.size(); ++i) {
    if (kOpcodeTable[i].operation != Operation::kInvalid &&
        name_of(static_cast<Opcode>(i)) == name) {
      return static_cast<Opcode>(i);
    }
  }
  return std::nullopt;
}

std::string name_of(abi::WcStatus status) {
  return at(abi::kStatusNames, static_cast<std::size_t>(status));
}

std::string name_of(abi::WcOpcode opcode) {
  const std::string_view name = abi::opcode_name(opcode);
  return name.empty() ? std::string("#").append(std::to_string(static_cast<unsigned>(opcode)))
                      : std::string(name);
}

std::string name_of(AsyncEvent event) {
  return at(abi::kEventNames, static_cast<std::size_t>(event));
}

std::string name_of(QpState state) { return at(abi::kStateNames, static_cast<std::size_t>(state)); }

std::optional<QpState> state_by_name(std::string_view name) {
  const auto* found = std::find(abi::kStateNames.begin(), abi::kStateNames.end(), name);
  return found == abi::kStateNames.end()
             ? std::nullopt
             : std::optional(static_cast<QpState>(found - abi::kStateNames.begin()));
}

std::optional<QpType> type_by_name(std::string_view name) {
  constexpr std::pair<std::string_view, QpType> kTypes[] = {{"RC", QpType::kRc},
                                                            {"UC", QpType::kUc},
                                                            {"UD", QpType::kUd},
                                                            {"XRC_SEND", QpType::kXrcSend},
                                                            {"XRC_RECV", QpType::kXrcRecv}};
  for (const auto& [known, type] : kTypes) {
    if (known == name) {
      return type;
    }
  }
  return std::nullopt;
}

std::string syndrome_name(std::uint8_t syndrome) {
  const std::string low = std::to_string(syndrome & kSyndromeValueMask);
  switch (syndrome & kSyndromeKindMask) {
    case 0:
      return "ACK";
    case kSyndromeRnr:
      return std::string("RNR:").append(low);
    case kSyndromeNak:
      return std::string("NAK:").append(low);
    default:
      return std::string("#").append(std::to_string(syndrome));
  }
}

}  // namespace uroce
