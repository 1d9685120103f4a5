#include "apps/tree/netlink_answers.h"

#include <gtest/gtest.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "apps/tree/netlink_message.h"
#include "dataplane/qp/counters.h"
#include "tests/unit/tree/report.h"

namespace uroce {
namespace {

constexpr std::uint32_t kInstance = 50;  // report_of_one_card's

std::string question(std::uint32_t command, int flags, std::initializer_list<std::uint32_t> card) {
  const NetlinkQuestion asker{.client = RDMA_NL_NLDEV,
                              .command = command,
                              .flags = 0,
                              .sequence = 5,
                              .port_id = 9,
                              .attributes = {}};
  NetlinkMessage message(asker,
                         static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)),
                         static_cast<std::uint16_t>(NLM_F_REQUEST | flags));
  for (const std::uint32_t index : card) {
    message.number32(RDMA_NLDEV_ATTR_DEV_INDEX, index);
  }
  return message.take();
}

std::vector<std::string> answer(const std::string& bytes) {
  const auto report = report_of_one_card();
  const auto cards = card_views(report).value();
  return answer_netlink(bytes, {.cards = cards, .report = report});
}

nlmsghdr header(const std::string& datagram) {
  nlmsghdr header{};
  std::memcpy(&header, datagram.data(), sizeof(header));
  return header;
}

int error_in(const std::string& datagram) {
  EXPECT_EQ(header(datagram).nlmsg_type, NLMSG_ERROR);
  int error = 0;
  std::memcpy(&error, datagram.data() + sizeof(nlmsghdr), sizeof(error));
  return error;
}

TEST(NetlinkAnswers, OneCard) {
  const auto datagrams = answer(question(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK, {kInstance}));
  ASSERT_EQ(datagrams.size(), 2U);
  EXPECT_EQ(header(datagrams[0]).nlmsg_seq, 5U);
  EXPECT_EQ(header(datagrams[0]).nlmsg_pid, 9U);
  EXPECT_EQ(header(datagrams[0]).nlmsg_len, datagrams[0].size());
  const auto told = parse_question(datagrams[0]);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->number(RDMA_NLDEV_ATTR_DEV_INDEX), kInstance);
  EXPECT_EQ(told->number(RDMA_NLDEV_ATTR_PORT_INDEX), 1U);
  EXPECT_EQ(told->attributes.at(RDMA_NLDEV_ATTR_DEV_NAME), std::string_view("uroce0", 7));
  EXPECT_EQ(told->attributes.at(RDMA_NLDEV_ATTR_PORT_STATE), std::string_view("\4"));
  EXPECT_EQ(error_in(datagrams[1]), 0) << "an acknowledgement";
}

TEST(NetlinkAnswers, ListsEndWithDone) {
  const auto datagrams = answer(question(RDMA_NLDEV_CMD_GET, NLM_F_DUMP, {}));
  ASSERT_EQ(datagrams.size(), 2U);
  EXPECT_EQ(header(datagrams[0]).nlmsg_flags & NLM_F_MULTI, NLM_F_MULTI);
  EXPECT_EQ(header(datagrams[1]).nlmsg_type, NLMSG_DONE);
}

TEST(NetlinkAnswers, ManyQueuePairsFitTheToolsBuffer) {
  auto report = report_of_one_card();
  auto& qps = report["sessions"][0]["qps"];
  for (const RoceCounter& counter : kRoceCounters) {
    qps[0][std::string(counter.name)] = 1;
  }
  for (int i = 0; i < 500; ++i) {
    qps.push_back(qps[0]);
  }
  const auto cards = card_views(report).value();
  NetlinkMessage statistic(
      *parse_question(question(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP, {})),
      static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_STAT_GET)),
      NLM_F_DUMP);
  statistic.number32(RDMA_NLDEV_ATTR_DEV_INDEX, kInstance);
  statistic.number32(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
  const std::string questions[] = {question(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {kInstance}),
                                   statistic.take()};
  for (const std::string& asked : questions) {
    std::size_t bytes = 0;
    for (const std::string& datagram : answer_netlink(asked, {.cards = cards, .report = report})) {
      EXPECT_LE(datagram.size(), 4096U);
      bytes += datagram.size();
    }
    EXPECT_GT(bytes, 501 * 40U) << "all are there";
  }
}

TEST(NetlinkAnswers, ObjectsOfPrograms) {
  for (const std::uint32_t command :
       {RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_CMD_RES_MR_GET,
        RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CM_ID_GET}) {
    const auto datagrams = answer(question(command, NLM_F_DUMP, {kInstance}));
    ASSERT_EQ(datagrams.size(), 2U) << command;
    EXPECT_EQ(header(datagrams[1]).nlmsg_type, NLMSG_DONE);
    EXPECT_EQ(parse_question(datagrams[0])->attributes.size(), 3U) << "the card, and a table";
  }
}

TEST(NetlinkAnswers, Refusals) {
  EXPECT_EQ(error_in(answer(question(RDMA_NLDEV_CMD_GET, 0, {0})).at(0)), -EINVAL);
  EXPECT_EQ(error_in(answer(question(RDMA_NLDEV_CMD_GET, 0, {})).at(0)), -EINVAL);
  EXPECT_EQ(error_in(answer(question(RDMA_NLDEV_CMD_SET, 0, {kInstance})).at(0)), -EOPNOTSUPP);
  EXPECT_EQ(error_in(answer(question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, {})).at(0)), -EOPNOTSUPP);
  EXPECT_TRUE(answer("short").empty());
}

TEST(NetlinkAnswers, ReportWithoutItsParts) {
  nlohmann::ordered_json report;
  const auto cards = card_views(report_of_one_card()).value();
  EXPECT_EQ(error_in(answer_netlink(question(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {kInstance}),
                                    {.cards = cards, .report = report})
                         .at(0)),
            -EPROTO);
}

// Any bytes: an answer, or none, and nothing is read beyond them.
TEST(NetlinkAnswers, AnyBytes) {
  std::mt19937 random(1);
  const std::string good = question(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {kInstance, 1, 2});
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (int change = 0; change < 3 && !bytes.empty(); ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    (void)answer(bytes);
  }
}

}  // namespace
}  // namespace uroce
