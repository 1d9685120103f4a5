#include "apps/tree/netlink_answers.h"

#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "apps/tree/netlink_message.h"
#include "apps/tree/netlink_resources.h"

namespace uroce {
namespace {

// Tools receive into 4096 bytes; an entry is much shorter than what is left.
constexpr std::size_t kMessageFull = 2560;
constexpr std::uint8_t kNodeIsCard = 1;     // enum rdma_node_type
constexpr std::uint8_t kAllNamespaces = 1;  // devices aren't in a network namespace each

class Answer {
 public:
  Answer(const NetlinkQuestion& question, const NetlinkKnowledge& known)
      : question_(question), known_(known) {}

  std::vector<std::string> run() {
    const int error = question_.client == RDMA_NL_NLDEV ? dispatch() : EINVAL;
    if (error != 0) {
      datagrams_ = {netlink_error(question_, error)};
    } else if (question_.dumps()) {
      datagrams_.push_back(netlink_done(question_));
    } else if ((question_.flags & NLM_F_ACK) != 0) {
      datagrams_.push_back(netlink_error(question_, 0));
    }
    return std::move(datagrams_);
  }

 private:
  int dispatch() {
    switch (question_.command) {
      case RDMA_NLDEV_CMD_GET:
        return each_card(&Answer::device);
      case RDMA_NLDEV_CMD_PORT_GET:
        return each_card(&Answer::port);
      case RDMA_NLDEV_CMD_RES_GET:
        return each_card(&Answer::summary);
      case RDMA_NLDEV_CMD_STAT_GET:
        if (question_.number(RDMA_NLDEV_ATTR_STAT_RES) == RDMA_NLDEV_ATTR_RES_QP) {
          return resources(&counters_kind());
        }
        return each_card(&Answer::statistic);
      case RDMA_NLDEV_CMD_SYS_GET:
        return system();
      default:
        return resources(find_resource_kind(question_.command));
    }
  }

  NetlinkMessage begin() const {
    return {question_,
            static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(question_.client, question_.command)),
            static_cast<std::uint16_t>(question_.dumps() ? NLM_F_MULTI : 0)};
  }
  static void name_card(const CardView& card, NetlinkMessage* message) {
    message->number32(RDMA_NLDEV_ATTR_DEV_INDEX, card.instance);
    message->text(RDMA_NLDEV_ATTR_DEV_NAME, card.name);
  }
  void send(NetlinkMessage message) { datagrams_.push_back(message.take()); }

  [[nodiscard]] const CardView* asked_for() const {
    const auto instance = question_.number(RDMA_NLDEV_ATTR_DEV_INDEX);
    const auto found =
        std::find_if(known_.cards.begin(), known_.cards.end(),
                     [&](const CardView& card) { return card.instance == instance; });
    return found != known_.cards.end() ? &*found : nullptr;
  }

  // The one that the question names; all, if it names none and wants a list.
  int each_card(void (Answer::*tell)(const CardView&)) {
    if (question_.dumps() && !question_.attributes.contains(RDMA_NLDEV_ATTR_DEV_INDEX)) {
      for (const CardView& card : known_.cards) {
        (this->*tell)(card);
      }
      return 0;
    }
    const CardView* card = asked_for();
    if (card == nullptr ||
        question_.number(RDMA_NLDEV_ATTR_PORT_INDEX).value_or(CardView::kPort) != CardView::kPort) {
      return EINVAL;
    }
    (this->*tell)(*card);
    return 0;
  }

  void device(const CardView& card) {
    NetlinkMessage message = begin();
    name_card(card, &message);
    message.number32(RDMA_NLDEV_ATTR_PORT_INDEX, CardView::kPort);  // how many there are
    message.text(RDMA_NLDEV_ATTR_FW_VERSION, card.firmware);
    message.number64(RDMA_NLDEV_ATTR_NODE_GUID, card.guid);
    message.number64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, card.guid);
    message.number8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kNodeIsCard);
    message.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
    send(std::move(message));
  }

  void port(const CardView& card) {
    NetlinkMessage message = begin();
    name_card(card, &message);
    message.number32(RDMA_NLDEV_ATTR_PORT_INDEX, CardView::kPort);
    message.number8(RDMA_NLDEV_ATTR_PORT_STATE, static_cast<std::uint8_t>(card.state));
    message.number8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, static_cast<std::uint8_t>(card.phys_state));
    if (!card.interface.empty()) {
      message.number32(RDMA_NLDEV_ATTR_NDEV_INDEX, card.interface_index);
      message.text(RDMA_NLDEV_ATTR_NDEV_NAME, card.interface);
    }
    send(std::move(message));
  }

  void summary(const CardView& card) {
    NetlinkMessage message = begin();
    name_card(card, &message);
    const std::size_t table = message.begin_nest(RDMA_NLDEV_ATTR_RES_SUMMARY);
    for (const auto& [name, count] : resource_summary(card, known_.report)) {
      const std::size_t entry = message.begin_nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
      message.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
      message.number64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count);
      message.end_nest(entry);
    }
    message.end_nest(table);
    send(std::move(message));
  }

  void statistic(const CardView& card) {
    NetlinkMessage message = begin();
    name_card(card, &message);
    message.number32(RDMA_NLDEV_ATTR_PORT_INDEX, CardView::kPort);
    const std::size_t table = message.begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
    for (const auto& [name, value] : card.hw_counters) {
      write_counter(name, value, &message);
    }
    message.end_nest(table);
    send(std::move(message));
  }

  int system() {
    NetlinkMessage message = begin();
    message.number8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kAllNamespaces);
    message.number8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    send(std::move(message));
    return 0;
  }

  // A list of objects, as many messages as it takes.
  int resources(const ResourceKind* kind) {
    if (kind == nullptr || !question_.dumps()) {
      return EOPNOTSUPP;
    }
    const CardView* card = asked_for();
    if (card == nullptr) {
      return EINVAL;
    }
    const auto entries = kind->list(*card, known_.report);
    for (auto entry = entries.begin(); entry != entries.end();) {
      NetlinkMessage message = begin();
      name_card(*card, &message);
      const std::size_t table = message.begin_nest(kind->table);
      for (; entry != entries.end() && message.size() < kMessageFull; ++entry) {
        const std::size_t one = message.begin_nest(kind->entry);
        (*entry)(&message);
        message.end_nest(one);
      }
      message.end_nest(table);
      send(std::move(message));
    }
    return 0;
  }

  const NetlinkQuestion& question_;
  const NetlinkKnowledge& known_;
  std::vector<std::string> datagrams_;
};

}  // namespace

std::vector<std::string> answer_netlink(std::string_view bytes, const NetlinkKnowledge& knowledge) {
  const auto question = parse_question(bytes);
  if (!question) {
    return {};
  }
  try {
    return Answer(*question, knowledge).run();
  } catch (const std::exception&) {  // the report lacks what it should have
    return {netlink_error(*question, EPROTO)};
  }
}

}  // namespace uroce
