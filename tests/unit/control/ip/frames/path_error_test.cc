// ICMP errors about packets of ours: parsed, classified, reported once.

#include "control/ip/frames/path_error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "control/reports/path_problems.h"
#include "dataplane/port/udp/icmp_frame.h"

namespace uroce::control {
namespace {

using Kind = PathError::Kind;

const Gid kFrom = parse_ip("10.0.0.1").value(), kTo = parse_ip("10.0.0.2").value(),
          kVia = parse_ip("10.0.0.254").value();
const Gid kFrom6 = parse_ip("fd00::1").value(), kTo6 = parse_ip("fd00::2").value(),
          kVia6 = parse_ip("fd00::fe").value();

// An ICMP error in a frame as ports build it and as routers send it.
struct IcmpMessage {
  explicit IcmpMessage(const IcmpError& error) {
    Frame frame;
    frame.data = bytes.data();
    frame.capacity = static_cast<std::uint32_t>(bytes.size());
    build_icmp_error(frame, error);
    length = frame.length;
  }
  [[nodiscard]] std::optional<PathError> parsed() const {
    const auto frame = parse_ethernet(std::span(bytes).first(length));
    return frame ? parse_path_error(*frame) : std::nullopt;
  }

  std::array<std::byte, 600> bytes{};
  std::size_t length = 0;
};

IcmpError ipv4_error(std::uint8_t type, std::uint8_t code) {
  return {.type = type,
          .code = code,
          .mtu = 1'400,
          .reporter = kVia,
          .source = kFrom,
          .destination = kTo};
}

IcmpError ipv6_error(std::uint8_t type, std::uint8_t code) {
  return {.type = type,
          .code = code,
          .mtu = 1'400,
          .reporter = kVia6,
          .source = kFrom6,
          .destination = kTo6};
}

TEST(PathError, IsParsedFromIcmp) {
  const struct {
    IcmpError message;
    Kind kind;
  } rows[] = {{ipv4_error(3, 0), Kind::kNoRoute},    {ipv4_error(3, 1), Kind::kNoHost},
              {ipv4_error(3, 3), Kind::kNoPort},     {ipv4_error(3, 4), Kind::kTooBig},
              {ipv4_error(3, 13), Kind::kForbidden}, {ipv6_error(1, 0), Kind::kNoRoute},
              {ipv6_error(1, 1), Kind::kForbidden},  {ipv6_error(1, 3), Kind::kNoHost},
              {ipv6_error(1, 4), Kind::kNoPort},     {ipv6_error(2, 0), Kind::kTooBig}};
  const std::array<std::byte, 3> payload{std::byte{0x64}, std::byte{0x40}, std::byte{7}};
  for (const auto& row : rows) {
    IcmpError message = row.message;
    message.payload = payload;
    const IcmpMessage made(message);
    const auto error = made.parsed();
    ASSERT_TRUE(error) << int{message.type} << "/" << int{message.code};
    EXPECT_EQ(error->kind, row.kind);
    EXPECT_EQ(error->source, message.source);
    EXPECT_EQ(error->destination, message.destination);
    EXPECT_EQ(error->reporter, message.reporter);
    EXPECT_EQ(error->mtu, 1'400U);
    EXPECT_TRUE(
        std::equal(error->payload.begin(), error->payload.end(), payload.begin(), payload.end()));
  }
}

TEST(PathError, OtherMessagesAreNone) {
  EXPECT_FALSE(IcmpMessage(ipv4_error(3, 2)).parsed());   // no such protocol
  EXPECT_FALSE(IcmpMessage(ipv4_error(11, 0)).parsed());  // time exceeded
  EXPECT_FALSE(IcmpMessage(ipv6_error(3, 0)).parsed());
  for (const IcmpError& error : {ipv4_error(3, 3), ipv6_error(1, 4)}) {
    IcmpMessage other_port(error);
    other_port.bytes[other_port.length - 5] ^= std::byte{1};
    EXPECT_FALSE(other_port.parsed());  // and the checksum is wrong now
    for (std::size_t length = 0; length < other_port.length; ++length) {
      IcmpMessage cut(error);
      cut.length = length;
      EXPECT_FALSE(cut.parsed()) << length;
    }
  }
}

TEST(PathError, HasAnErrnoAndASentence) {
  EXPECT_EQ(error_number(Kind::kNoPort), ECONNREFUSED);
  EXPECT_EQ(error_number(Kind::kNoHost), EHOSTUNREACH);
  EXPECT_EQ(error_number(Kind::kNoRoute), ENETUNREACH);
  EXPECT_EQ(error_number(Kind::kForbidden), EACCES);
  EXPECT_EQ(error_number(Kind::kTooBig), EMSGSIZE);
  EXPECT_EQ(to_string(*IcmpMessage(ipv4_error(3, 3)).parsed()),
            "10.0.0.2 is there, but nothing has UDP port 4791 at that address: start uroced there");
  EXPECT_EQ(to_string(*IcmpMessage(ipv4_error(3, 4)).parsed()),
            "the path to 10.0.0.2 carries IP packets of 1400 bytes at most (says 10.0.0.254): "
            "longer ones are lost, so connections there need a smaller path MTU");
}

TEST(PathProblems, AreReportedOnceAMinuteAndWhenTheyChange) {
  PathProblems problems;
  const PathError refused = *IcmpMessage(ipv4_error(3, 3)).parsed();
  const PathError too_big = *IcmpMessage(ipv4_error(3, 4)).parsed();
  EXPECT_TRUE(problems.record(refused, 0));
  EXPECT_FALSE(problems.record(refused, PathProblems::kLineIntervalMin - 1));
  EXPECT_TRUE(problems.record(refused, PathProblems::kLineIntervalMin));
  EXPECT_TRUE(problems.record(too_big, PathProblems::kLineIntervalMin + 1));
  EXPECT_EQ(problems.last(kTo, PathProblems::kRetention), to_string(too_big));
  EXPECT_EQ(problems.last(kTo, PathProblems::kRetention + PathProblems::kLineIntervalMin + 1), "");
  EXPECT_EQ(problems.last(kVia, 0), "");
}

// A forger can vary each packet.
TEST(PathProblems, ForgedChangesMakeOneLinePerKind) {
  PathProblems problems;
  PathError error = *IcmpMessage(ipv4_error(3, 4)).parsed();
  int told = 0;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    error.kind = i % 2 == 0 ? Kind::kTooBig : Kind::kNoHost;
    error.mtu = 1'000 + i;
    told += problems.record(error, i) ? 1 : 0;
  }
  EXPECT_EQ(told, 2);
  EXPECT_EQ(problems.last(kTo, 1'000), to_string(error)) << "the newest is kept";
  EXPECT_TRUE(problems.record(error, PathProblems::kLineIntervalMin + 1));
}

TEST(PathProblems, AreKeptForABoundedNumberOfPeers) {
  PathProblems problems;
  PathError error = *IcmpMessage(ipv4_error(3, 3)).parsed();
  for (std::size_t i = 0; i < PathProblems::kPeersMax; ++i) {
    error.destination.bytes[14] = static_cast<std::uint8_t>(i >> 8U);
    error.destination.bytes[15] = static_cast<std::uint8_t>(i);
    EXPECT_EQ(problems.record(error, 0), i < PathProblems::kLinesMax);
    EXPECT_EQ(problems.last(error.destination, 0), to_string(error));
  }
  EXPECT_TRUE(problems.record(error, PathProblems::kLineIntervalMin))
      << "it hasn't been reported before";
  error.destination.bytes[13] = 1;
  EXPECT_FALSE(problems.record(error, PathProblems::kLineIntervalMin));
  EXPECT_TRUE(problems.record(error, PathProblems::kRetention));
}

}  // namespace
}  // namespace uroce::control
