#pragma once

// Netlink messages of RDMA's device interface (rdma/rdma_netlink.h), as bytes: what a program
// asked, and what it is answered.

#include <linux/netlink.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace uroce {

// A question: its header, and the attributes at its top.
struct NetlinkQuestion {
  std::uint32_t client = 0, command = 0;  // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_*
  std::uint16_t flags = 0;                // NLM_F_*
  std::uint32_t sequence = 0, port_id = 0;
  std::map<std::uint16_t, std::string_view> attributes;  // into the bytes

  [[nodiscard]] bool dumps() const { return (flags & NLM_F_DUMP) == NLM_F_DUMP; }
  [[nodiscard]] std::optional<std::uint32_t> number(std::uint16_t attribute) const;
};

// Nothing: the bytes aren't one message.
std::optional<NetlinkQuestion> parse_question(std::string_view bytes);

// One message of an answer, as it is put together.
class NetlinkMessage {
 public:
  NetlinkMessage(const NetlinkQuestion& question, std::uint16_t type, std::uint16_t flags);

  void number8(std::uint16_t attribute, std::uint8_t value);
  void number32(std::uint16_t attribute, std::uint32_t value);
  void number64(std::uint16_t attribute, std::uint64_t value);
  void text(std::uint16_t attribute, std::string_view value);
  void bytes(std::uint16_t attribute, std::string_view value);
  // Attributes that follow belong to this one, until end_nest() with what this returned.
  std::size_t begin_nest(std::uint16_t attribute);
  void end_nest(std::size_t begun);
  // What an error, an acknowledgement or the end of a dump carries in place of attributes.
  void plain(std::string_view value);

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  // The whole, whose header says how long it is.
  [[nodiscard]] std::string take();

 private:
  std::string bytes_;
};

// Acknowledges the question, or refuses it with an errno value.
std::string netlink_error(const NetlinkQuestion& question, int error);
std::string netlink_done(const NetlinkQuestion& question);

}  // namespace uroce
