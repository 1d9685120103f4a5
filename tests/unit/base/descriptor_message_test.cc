#include "base/sockets/descriptor_message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace uroce::test {
namespace {

class DescriptorMessageTest : public ::testing::Test {
 protected:
  DescriptorMessageTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    one.reset(ends[0]);
    other.reset(ends[1]);
  }

  ReceivedMessage receive(std::size_t room = 64) {
    bytes.resize(room);
    return receive_message(other.get(), bytes, MSG_DONTWAIT, &descriptors);
  }

  UniqueFd one, other;
  std::vector<std::byte> bytes;
  Descriptors descriptors;
};

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

constexpr std::array<std::byte, 3> kHello{std::byte{1}, std::byte{2}, std::byte{3}};

TEST_F(DescriptorMessageTest, BytesAndDescriptorsArrive) {
  const std::array<int, 2> passed{one.get(), other.get()};
  EXPECT_EQ(send_message(one.get(), kHello, passed), 3);
  const ReceivedMessage received = receive();
  EXPECT_EQ(received.length, 3);
  EXPECT_FALSE(received.cut || received.descriptors_cut);
  EXPECT_EQ(std::memcmp(bytes.data(), kHello.data(), kHello.size()), 0);
  ASSERT_EQ(descriptors.count(), 2U);
  EXPECT_NE(::fcntl(descriptors.peek(0), F_GETFD) & FD_CLOEXEC, 0);
  const UniqueFd taken = descriptors.take(0);
  EXPECT_TRUE(is_open(taken.get()));
  EXPECT_EQ(descriptors.peek(0), -1);
  EXPECT_FALSE(descriptors.take(2).valid());
}

TEST_F(DescriptorMessageTest, WhatNobodyTakesIsClosed) {
  const std::array<int, 1> passed{one.get()};
  int number = -1;
  {
    Descriptors unwanted;
    ASSERT_EQ(send_message(one.get(), kHello, passed), 3);
    bytes.resize(64);
    ASSERT_EQ(receive_message(other.get(), bytes, 0, &unwanted).length, 3);
    number = unwanted.peek(0);
    ASSERT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST_F(DescriptorMessageTest, AsManyAsThereMayBe) {
  const std::vector<int> passed(kDescriptorsMax, one.get());
  EXPECT_EQ(send_message(one.get(), kHello, passed), 3);
  EXPECT_FALSE(receive().descriptors_cut);
  EXPECT_EQ(descriptors.count(), kDescriptorsMax);
}

TEST_F(DescriptorMessageTest, WhatDoesNotFitIsToldCut) {
  EXPECT_EQ(send_message(one.get(), kHello), 3);
  const ReceivedMessage received = receive(2);
  EXPECT_EQ(received.length, 2);
  EXPECT_TRUE(received.cut);
}

TEST_F(DescriptorMessageTest, NothingAndTheEnd) {
  EXPECT_EQ(receive().length, -1);
  EXPECT_EQ(errno, EAGAIN);
  one.reset();
  EXPECT_EQ(receive().length, 0);
  EXPECT_EQ(send_message(other.get(), kHello), -1) << "and no SIGPIPE";
}

}  // namespace
}  // namespace uroce::test
