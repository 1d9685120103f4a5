// Messages to bytes and back, with every field random; and what isn't a message.

#include "control/cm/mad.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "control/cm/ip_service.h"

namespace uroce::control::cm {
namespace {

class MadTest : public ::testing::Test {
 protected:
  std::mt19937_64 random{1};

  std::uint32_t number(unsigned bits) {
    return static_cast<std::uint32_t>(random() & ((1ULL << bits) - 1));
  }
  std::uint8_t small(unsigned bits) { return static_cast<std::uint8_t>(number(bits)); }
  PrivateData data(std::size_t size) {
    PrivateData bytes(size);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(number(8));
    }
    return bytes;
  }
  Gid gid() {
    Gid value;
    for (auto& byte : value.bytes) {
      byte = small(8);
    }
    return value;
  }
  ReqPath path() {
    ReqPath value;
    value.local_lid = static_cast<std::uint16_t>(number(16));
    value.remote_lid = static_cast<std::uint16_t>(number(16));
    value.local_gid = gid();
    value.remote_gid = gid();
    value.flow_label = number(20);
    value.packet_rate = small(6);
    value.traffic_class = small(8);
    value.hop_limit = small(8);
    value.service_level = small(4);
    value.subnet_local = number(1) != 0;
    value.ack_timeout = small(5);
    return value;
  }
  Req req() {
    Req value;
    value.local_id = number(32) | 1;
    value.service_id = random();
    value.ca_guid = random();
    value.qkey = number(32);
    value.qpn = number(24) | 1;
    value.responder_resources = small(8);
    value.initiator_depth = small(8);
    value.remote_response_timeout = small(5);
    value.transport = static_cast<Transport>(number(2));
    value.flow_control = number(1) != 0;
    value.starting_psn = number(24);
    value.local_response_timeout = small(5);
    value.retry_count = small(3);
    value.pkey = static_cast<std::uint16_t>(number(16));
    value.path_mtu = small(4);
    value.rdc_exists = number(1) != 0;
    value.rnr_retry_count = small(3);
    value.max_cm_retries = small(4);
    value.srq = number(1) != 0;
    value.extended_transport = small(3);
    value.primary = path();
    value.alternate = path();
    value.ece = {.vendor_id = number(24), .options = number(32)};
    value.private_data = data(kReqPrivateMax);
    return value;
  }
  Rep rep() {
    return {.local_id = number(32) | 1,
            .remote_id = number(32) | 1,
            .qkey = number(32),
            .qpn = number(24) | 1,
            .eecn = number(24),
            .starting_psn = number(24),
            .responder_resources = small(8),
            .initiator_depth = small(8),
            .target_ack_delay = small(5),
            .failover_accepted = small(2),
            .flow_control = number(1) != 0,
            .rnr_retry_count = small(3),
            .srq = number(1) != 0,
            .ca_guid = random(),
            .ece = {.vendor_id = number(24), .options = number(32)},
            .private_data = data(kRepPrivateMax)};
  }
  Rej rej() {
    return {.local_id = number(32),
            .remote_id = number(32),
            .message = static_cast<RejMessage>(number(1)),
            .reason = static_cast<RejectReason>(number(16)),
            .info = data(number(6)),
            .private_data = data(kRejPrivateMax)};
  }
  std::vector<Message> messages() {
    return {req(),
            rep(),
            rej(),
            Mra{number(32), number(32), MraMessage::kRep, small(5), data(kMraPrivateMax)},
            Rtu{number(32), number(32), data(kRtuPrivateMax)},
            Dreq{number(32), number(32), number(24), data(kDreqPrivateMax)},
            Drep{number(32), number(32), data(kDrepPrivateMax)},
            Lap{number(32), number(32)},
            Apr{number(32), number(32), small(8), data(kAprPrivateMax)},
            SidrReq{number(32), static_cast<std::uint16_t>(number(16)), random(),
                    data(kSidrReqPrivateMax)},
            SidrRep{number(32), static_cast<SidrStatus>(number(2)), number(24), number(32),
                    random(), data(kSidrRepPrivateMax)}};
  }
};

// Building is injective on what parsing keeps: bytes, message, bytes again. Each field was random,
// so one that is parsed at a wrong offset, or not at all, changes the bytes.
TEST_F(MadTest, RoundTrips) {
  for (int i = 0; i < 200; ++i) {
    for (const Message& message : messages()) {
      const std::uint64_t transaction = random();
      const Mad mad = build_mad(transaction, message);
      MadFault fault{};
      const auto parsed = parse_mad(mad, &fault);
      ASSERT_TRUE(parsed) << name_of(message);
      EXPECT_EQ(parsed->transaction, transaction);
      ASSERT_EQ(parsed->message.index(), message.index());
      EXPECT_EQ(build_mad(transaction, parsed->message), mad) << name_of(message);
    }
  }
}

TEST_F(MadTest, FieldsKeepTheirValues) {
  const Req sent = req();
  MadFault fault{};
  const Req got = std::get<Req>(parse_mad(build_mad(1, sent), &fault)->message);
  EXPECT_EQ(got.local_id, sent.local_id);
  EXPECT_EQ(got.service_id, sent.service_id);
  EXPECT_EQ(got.qpn, sent.qpn);
  EXPECT_EQ(got.starting_psn, sent.starting_psn);
  EXPECT_EQ(got.primary.flow_label, sent.primary.flow_label);
  EXPECT_EQ(got.primary.remote_gid, sent.primary.remote_gid);
  EXPECT_EQ(got.ece, sent.ece);
  EXPECT_EQ(got.private_data, sent.private_data);
  const Rep reply = rep();
  EXPECT_EQ(std::get<Rep>(parse_mad(build_mad(1, reply), &fault)->message).ece, reply.ece);
}

TEST_F(MadTest, WhatIsntAMessageSaysWhy) {
  const Mad right = build_mad(1, req());
  const auto fault_of = [](std::span<const std::byte> bytes) {
    MadFault fault{};
    EXPECT_FALSE(parse_mad(bytes, &fault));
    return fault;
  };
  EXPECT_EQ(fault_of(std::span(right).first(255)), MadFault::kLength);
  for (const std::size_t offset : {0U, 1U, 2U, 3U}) {
    Mad wrong = right;
    wrong[offset] = std::byte{0x55};
    EXPECT_EQ(fault_of(wrong), MadFault::kHeader);
  }
  Mad wrong = right;
  wrong[17] = std::byte{0x1B};
  EXPECT_EQ(fault_of(wrong), MadFault::kAttribute);
  EXPECT_EQ(fault_of(build_mad(1, Req{})), MadFault::kField);
  EXPECT_EQ(fault_of(build_mad(1, Rep{})), MadFault::kField);
}

TEST_F(MadTest, IpHeaderRoundTrips) {
  for (const bool ipv6 : {false, true}) {
    IpHeader header{.ipv6 = ipv6,
                    .source_port = 0xC63C,
                    .source = *parse_ip(ipv6 ? "fd00::1" : "10.0.0.1"),
                    .destination = *parse_ip(ipv6 ? "fd00::2" : "10.0.0.2")};
    const PrivateData bytes = with_ip_header(header, PrivateData(56, std::byte{1}));
    EXPECT_EQ(bytes.size(), kReqPrivateMax);
    const auto parsed = parse_ip_header(bytes);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->ipv6, ipv6);
    EXPECT_EQ(parsed->source_port, 0xC63C);
    EXPECT_EQ(parsed->source, header.source);
    EXPECT_EQ(parsed->destination, header.destination);
  }
}

TEST_F(MadTest, AnotherIpHeaderIsRefused) {
  PrivateData bytes = with_ip_header({}, {});
  EXPECT_TRUE(parse_ip_header(bytes));
  EXPECT_FALSE(parse_ip_header(std::span(bytes).first(kIpHeaderBytes - 1)));
  bytes[0] = std::byte{0x10};
  EXPECT_FALSE(parse_ip_header(bytes));
  bytes[0] = std::byte{0};
  bytes[1] = std::byte{0x50};
  EXPECT_FALSE(parse_ip_header(bytes));
}

TEST_F(MadTest, ReasonsHaveNames) {
  EXPECT_EQ(name_of(RejectReason::kInvalidServiceId), "invalid_service_id");
  EXPECT_EQ(explanation_of(RejectReason::kInvalidServiceId), "nobody listens at the port");
  EXPECT_EQ(name_of(static_cast<RejectReason>(999)), "unknown");
  EXPECT_NE(explanation_of(static_cast<RejectReason>(999)), "");
}

}  // namespace
}  // namespace uroce::control::cm
