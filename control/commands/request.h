#pragma once

// A command's request and its reply under construction.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "abi/cm_records.h"
#include "abi/command_records.h"
#include "base/sockets/record_limits.h"
#include "base/unique_fd.h"

namespace uroce::control {

struct AdviceProgress;
struct MemoryOpening;
struct Registration;

// The outcome of a command that wasn't refused.
enum class [[nodiscard]] Outcome : std::uint8_t{
    kReply,   // send the reply
    kWait,    // an address isn't known yet: run the handler again later
    kPieces,  // the conversation has a report to send, piece by piece
};

// A request's bytes, checked against the command's minimum length.
struct Request {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
  std::shared_ptr<AdviceProgress> advice{};      // what a waiting kAdviseMr waits for
  std::shared_ptr<Registration> registration{};  // a waiting kRegMr
  std::shared_ptr<MemoryOpening> opening{};      // a waiting kOpenPaging
  // The number of helpers that may still access the memory of a waiting kDeregMr, or of a kRegMr
  // that replaced a region.
  std::shared_ptr<std::atomic<std::uint32_t>> helpers{};

  // REQUIRES: the command table says that the record is at least this long.
  template <typename Body>
  [[nodiscard]] Body as() const {
    static_assert(std::is_trivially_copyable_v<Body>);
    Body body;
    std::memcpy(&body, bytes.data(), sizeof(Body));
    return body;
  }
};

// A reply under construction. The conversation fills its header when the handler is done.
struct Reply {
  // Bytes of the longest reply of a command that changes something (reports are longer). Reserved
  // in advance: once a handler has created an object or taken an event, its reply must not fail.
  static constexpr std::size_t kReserved = sizeof(abi::CmCommandReply);

  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;

  Reply() {
    bytes.reserve(kReserved);
    bytes.resize(sizeof(abi::ReplyHeader));
  }

  template <typename Body>
  void set(const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= kRecordMax);
    bytes.resize(sizeof(Body));
    std::memcpy(bytes.data(), &body, sizeof(Body));
  }
  void set_handle(std::uint32_t handle) { set(abi::HandleReply{{}, handle, 0}); }
  // Appends text of any length behind the header; it is sent in as many records as needed.
  void set_text(const std::string& text) {
    const auto begin = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), begin, begin + text.size());
  }
};

}  // namespace uroce::control
