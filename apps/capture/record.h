#pragma once

// One record of a capture: a received or sent frame, and what is known about it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "abi/capture_records.h"
#include "dataplane/wire/address.h"

namespace uroce::capture {

struct Record {
  abi::CaptureRecord head{};
  std::vector<std::byte> bytes;
  std::optional<std::uint8_t> dropped;  // the number of the line in drop.def
};

// Which records are written. Without conditions all are.
struct CaptureFilter {
  std::optional<std::uint16_t> port{};
  std::optional<std::uint32_t> qpn{};  // that sent it, or that it is for
  std::optional<Gid> peer{};           // the other end's address
  bool drops = false;                  // only those that were dropped
};

[[nodiscard]] bool is_wanted(const Record& record, const CaptureFilter& wanted);

// "QP 17, work request 5: sent again, a NAK or a silence named it"
[[nodiscard]] std::string comment_of(const Record& record);

// Whether the queue pair sent it, or it came for its number.
[[nodiscard]] bool is_of_queue_pair(const Record& record, std::uint32_t qpn);

// Of a record of the kind kFailed: why a completion failed, in the words of `uroce errors`.
// Nothing: no completion did, or work requests were only flushed behind one that had failed.
[[nodiscard]] std::optional<std::string> failed_completion(const Record& record);

}  // namespace uroce::capture
