#include "base/sockets/record_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/refusal.h"
#include "base/sockets/record_limits.h"

namespace uroce::test {
namespace {

class RecordSocketTest : public testing::Test {
 protected:
  RecordSocketTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    here_ = UniqueFd(ends[0]);
    there_ = UniqueFd(ends[1]);
  }
  void given(std::size_t bytes) {
    EXPECT_EQ(
        send_record(there_.get(), {.bytes = std::vector<std::byte>(bytes), .descriptors = {}}),
        Sending::kSent);
  }
  std::size_t length() {
    Record record;
    EXPECT_EQ(peek_plain_record(here_.get(), &record), ReceiveStatus::kRecord);
    return record.bytes.size();
  }

  UniqueFd here_, there_;
};

TEST(SocketPath, OneThatIsTooLongIsRefusedWithTheLimit) {
  const auto address = address_of(std::string(400, 'x'));
  ASSERT_FALSE(address);
  const Sentence told = Sentence::composed("%s", address.error().message.c_str());
  EXPECT_NE(told.view().find("1 to 107 characters"), std::string_view::npos) << told.view();
}

TEST_F(RecordSocketTest, ARecordThatWasLookedAtStaysUntilItIsDiscarded) {
  given(40);
  given(50);
  EXPECT_EQ(length(), 40U);
  EXPECT_EQ(length(), 40U);
  discard_record(here_.get());
  EXPECT_EQ(length(), 50U);
  Record record;
  EXPECT_EQ(receive_plain_record(here_.get(), &record), ReceiveStatus::kRecord);
  EXPECT_EQ(receive_plain_record(here_.get(), &record), ReceiveStatus::kNothing);
}

// The sender has closed without reading its answer, which the kernel reports as an error first.
TEST_F(RecordSocketTest, OneWhoseSenderHasGoneIsDiscardedToo) {
  given(40);
  EXPECT_EQ(length(), 40U);
  const char answer = 1;
  ASSERT_EQ(::send(here_.get(), &answer, sizeof(answer), 0), 1);
  there_.reset();
  discard_record(here_.get());
  Record record;
  EXPECT_EQ(peek_plain_record(here_.get(), &record), ReceiveStatus::kClosed);
}

TEST_F(RecordSocketTest, ATooLongRecordIsDiscarded) {
  given(kRecordMax + 1);
  given(40);
  Record record;
  EXPECT_EQ(peek_plain_record(here_.get(), &record), ReceiveStatus::kTooLong);
  discard_record(here_.get());
  EXPECT_EQ(length(), 40U);
}

}  // namespace
}  // namespace uroce::test
