#include "apps/tree/netlink_message.h"

#include <rdma/rdma_netlink.h>

#include <cstring>

namespace uroce {
namespace {

// The header of an error repeats that of the question: its length is the whole question's, which
// nobody reads.
nlmsghdr header_of(const NetlinkQuestion& question) {
  nlmsghdr header{};
  header.nlmsg_len = sizeof(header);
  header.nlmsg_type =
      static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(question.client, question.command));
  header.nlmsg_flags = question.flags;
  header.nlmsg_seq = question.sequence;
  header.nlmsg_pid = question.port_id;
  return header;
}

template <typename T>
std::string_view raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

std::optional<std::uint32_t> NetlinkQuestion::number(std::uint16_t attribute) const {
  const auto found = attributes.find(attribute);
  std::uint32_t value = 0;
  if (found == attributes.end() || found->second.size() != sizeof(value)) {
    return std::nullopt;
  }
  std::memcpy(&value, found->second.data(), sizeof(value));
  return value;
}

std::optional<NetlinkQuestion> parse_question(std::string_view bytes) {
  nlmsghdr header{};
  if (bytes.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > bytes.size()) {
    return std::nullopt;
  }
  NetlinkQuestion question{
      .client = static_cast<std::uint32_t>(RDMA_NL_GET_CLIENT(header.nlmsg_type)),
      .command = static_cast<std::uint32_t>(RDMA_NL_GET_OP(header.nlmsg_type)),
      .flags = header.nlmsg_flags,
      .sequence = header.nlmsg_seq,
      .port_id = header.nlmsg_pid,
      .attributes = {}};
  bytes = bytes.substr(sizeof(header), header.nlmsg_len - sizeof(header));
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr attribute{};
    std::memcpy(&attribute, bytes.data(), sizeof(attribute));
    if (attribute.nla_len < sizeof(attribute) || attribute.nla_len > bytes.size()) {
      return std::nullopt;
    }
    question.attributes[attribute.nla_type & NLA_TYPE_MASK] =
        bytes.substr(sizeof(attribute), attribute.nla_len - sizeof(attribute));
    bytes.remove_prefix(std::min<std::size_t>(NLA_ALIGN(attribute.nla_len), bytes.size()));
  }
  return question;
}

NetlinkMessage::NetlinkMessage(const NetlinkQuestion& question, std::uint16_t type,
                               std::uint16_t flags) {
  nlmsghdr header = header_of(question);
  header.nlmsg_type = type;
  header.nlmsg_flags = flags;
  bytes_ = raw(header);
}

void NetlinkMessage::bytes(std::uint16_t attribute, std::string_view value) {
  const nlattr header{.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + value.size()),
                      .nla_type = attribute};
  bytes_ += raw(header);
  plain(value);
}

void NetlinkMessage::plain(std::string_view value) {
  bytes_ += value;
  bytes_.resize(NLA_ALIGN(bytes_.size()));
}

void NetlinkMessage::number8(std::uint16_t attribute, std::uint8_t value) {
  bytes(attribute, raw(value));
}
void NetlinkMessage::number32(std::uint16_t attribute, std::uint32_t value) {
  bytes(attribute, raw(value));
}
void NetlinkMessage::number64(std::uint16_t attribute, std::uint64_t value) {
  bytes(attribute, raw(value));
}

void NetlinkMessage::text(std::uint16_t attribute, std::string_view value) {
  bytes(attribute, std::string(value) + '\0');
}

std::size_t NetlinkMessage::begin_nest(std::uint16_t attribute) {
  const std::size_t begun = bytes_.size();
  bytes(attribute, {});
  return begun;
}

void NetlinkMessage::end_nest(std::size_t begun) {
  const auto length = static_cast<std::uint16_t>(bytes_.size() - begun);
  std::memcpy(bytes_.data() + begun, &length, sizeof(length));
}

std::string NetlinkMessage::take() {
  const auto length = static_cast<std::uint32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &length, sizeof(length));
  return std::move(bytes_);
}

std::string netlink_error(const NetlinkQuestion& question, int error) {
  nlmsgerr body{.error = -error, .msg = header_of(question)};
  NetlinkMessage message(question, NLMSG_ERROR, error == 0 ? NLM_F_CAPPED : 0);
  message.plain(raw(body));
  return message.take();
}

std::string netlink_done(const NetlinkQuestion& question) {
  const int error = 0;
  NetlinkMessage message(question, NLMSG_DONE, NLM_F_MULTI);
  message.plain(raw(error));
  return message.take();
}

}  // namespace uroce
