#include "control/cm_user/endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>

namespace uroce::control::cm_user {
namespace {

sockaddr_in ipv4(const char* address, std::uint16_t port) {
  sockaddr_in socket_address{};
  socket_address.sin_family = AF_INET;
  socket_address.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &socket_address.sin_addr);
  return socket_address;
}

sockaddr_in6 ipv6(const char* address, std::uint16_t port) {
  sockaddr_in6 socket_address{};
  socket_address.sin6_family = AF_INET6;
  socket_address.sin6_port = htons(port);
  ::inet_pton(AF_INET6, address, &socket_address.sin6_addr);
  return socket_address;
}

template <typename Address>
Endpoint parse(const Address& address) {
  return *parse_sockaddr(std::as_bytes(std::span(&address, 1)));
}

TEST(Endpoint, ReadsAndWritesBothFamilies) {
  for (const char* text : {"10.0.0.1:7471", "[fd00::1]:7471"}) {
    const bool is_ipv4 = text[0] != '[';
    const Endpoint endpoint =
        is_ipv4 ? parse(ipv4("10.0.0.1", 7471)) : parse(ipv6("fd00::1", 7471));
    EXPECT_EQ(to_string(endpoint), text);
    EXPECT_FALSE(endpoint.is_any());

    std::array<std::byte, sizeof(sockaddr_in6)> bytes{};
    const std::size_t size = store_sockaddr(endpoint, bytes);
    EXPECT_EQ(size, is_ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    EXPECT_EQ(*parse_sockaddr(std::span(bytes).first(size)), endpoint);
  }
}

TEST(Endpoint, KnowsWildcards) {
  EXPECT_TRUE(parse(ipv4("0.0.0.0", 1)).is_any());
  EXPECT_TRUE(parse(ipv6("::", 1)).is_any());
  EXPECT_TRUE(any_endpoint(Family::kIpv4).is_any());
  EXPECT_TRUE(any_endpoint(Family::kIpv6).is_any());
  EXPECT_FALSE(Endpoint{}.is_any());
}

TEST(Endpoint, AnIpv4MappedAddressIsAnIpv4Address) {
  EXPECT_EQ(parse(ipv6("::ffff:10.0.0.1", 5)), parse(ipv4("10.0.0.1", 5)));
}

TEST(Endpoint, FamilyZeroIsNoAddress) {
  const sockaddr_in6 none{};
  EXPECT_FALSE(parse(none).is_set());
  std::array<std::byte, sizeof(sockaddr_in6)> bytes{};
  EXPECT_EQ(store_sockaddr(Endpoint{}, bytes), 0U);
}

TEST(Endpoint, RefusesOtherFamiliesAndTruncatedAddresses) {
  sockaddr_in6 other{};
  other.sin6_family = 27;  // AF_IB
  EXPECT_EQ(parse_sockaddr(std::as_bytes(std::span(&other, 1))).error().code, EAFNOSUPPORT);
  const sockaddr_in6 whole = ipv6("fd00::1", 1);
  const auto bytes = std::as_bytes(std::span(&whole, 1));
  EXPECT_EQ(parse_sockaddr(bytes.first(20)).error().code, EAFNOSUPPORT);
  EXPECT_FALSE(parse_sockaddr({})->is_set());
}

}  // namespace
}  // namespace uroce::control::cm_user
