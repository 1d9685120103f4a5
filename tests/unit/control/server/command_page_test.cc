// The page by which a program sends commands without a system call: both ends of it, the poller,
// and the server with programs that keep to the protocol and programs that don't.

#include "control/sessions/command_page.h"

#include <sys/mman.h>

#include <random>
#include <vector>

#include "control/server/command_page_poller.h"
#include "tests/unit/control/server/server_fixture.h"
#include "verbs_shim/socket/command_page.h"

namespace uroce::control {
namespace {

using State = abi::PageState;

std::vector<std::byte> bytes(std::size_t length, int value) {
  return std::vector<std::byte>(length, std::byte(value));
}
Record record_of(std::size_t length, int value) {
  Record record;
  record.bytes = bytes(length, value);
  return record;
}
bool no_more_time() { return false; }

class CommandPageTest : public ::testing::Test {
 protected:
  CommandPageTest() { program.attach(&memory); }

  abi::CommandPage memory{};
  CommandPage daemon{memory};
  shim::CommandPage program;
};

TEST_F(CommandPageTest, IsUsedOnlyWhileControlPolls) {
  EXPECT_FALSE(program.ask(bytes(40, 1)));
  daemon.start_polling();
  EXPECT_FALSE(daemon.has_request());
  EXPECT_TRUE(program.ask(bytes(40, 1)));
  EXPECT_TRUE(daemon.has_request());
  EXPECT_EQ(daemon.take().bytes, bytes(40, 1));
  EXPECT_TRUE(daemon.answer(record_of(300, 2), true));
  EXPECT_FALSE(daemon.has_request());
  ASSERT_TRUE(program.wait(no_more_time));
  std::vector<std::byte> reply(400);
  EXPECT_EQ(program.answer(reply), 300U);
  EXPECT_EQ(std::vector(reply.begin(), reply.begin() + 300), bytes(300, 2));
  EXPECT_TRUE(program.ask(bytes(50, 3))) << "control still polls";
  EXPECT_EQ(daemon.take().bytes, bytes(50, 3));
  EXPECT_TRUE(daemon.answer(record_of(300, 4), false));
  EXPECT_TRUE(program.wait(no_more_time));
  EXPECT_FALSE(program.ask(bytes(50, 5))) << "control doesn't poll any more";
}

TEST_F(CommandPageTest, ARequestIsNotLostWhenPollingStops) {
  daemon.start_polling();
  EXPECT_TRUE(daemon.stop_polling());
  EXPECT_FALSE(program.ask(bytes(40, 1)));
  daemon.start_polling();
  ASSERT_TRUE(program.ask(bytes(40, 1)));
  EXPECT_FALSE(daemon.stop_polling());
  EXPECT_TRUE(daemon.has_request());
}

TEST_F(CommandPageTest, TooLongRecordsGoBySocket) {
  daemon.start_polling();
  EXPECT_FALSE(program.ask(bytes(abi::kPageRequestMax + 1, 1)));
  ASSERT_TRUE(program.ask(bytes(abi::kPageRequestMax, 1)));
  EXPECT_EQ(daemon.take().bytes.size(), abi::kPageRequestMax);
  EXPECT_FALSE(daemon.answer(record_of(abi::kPageReplyMax + 1, 2), true));
  EXPECT_FALSE(program.wait([] { return true; })) << "the answer comes by the socket";
  daemon.start_polling();
  EXPECT_FALSE(program.ask(bytes(40, 1))) << "the socket's answer wasn't read yet";
  program.forget();
  daemon.start_polling();
  ASSERT_TRUE(program.ask(bytes(40, 1)));
  (void)daemon.take();
  Record with_descriptor = record_of(300, 1);
  with_descriptor.descriptors.emplace_back(::dup(2));
  EXPECT_FALSE(daemon.answer(with_descriptor, true));
  EXPECT_FALSE(program.wait([] { return true; }));
}

TEST_F(CommandPageTest, AfterALongWaitTheAnswerComesBySocket) {
  for (const bool taken_before : {true, false}) {
    daemon.start_polling();
    ASSERT_TRUE(program.ask(bytes(40, 1)));
    Record request = taken_before ? daemon.take() : Record{};
    EXPECT_FALSE(program.wait(no_more_time));
    EXPECT_TRUE(daemon.has_request()) << "until it is answered";
    if (!taken_before) {
      request = daemon.take();
    }
    EXPECT_EQ(request.bytes, bytes(40, 1));
    EXPECT_FALSE(daemon.answer(record_of(300, 2), true));
    EXPECT_FALSE(daemon.has_request());
    program.forget();
  }
}

TEST_F(CommandPageTest, LengthsInThePageAreNotTrusted) {
  memory.state = State::kRequested;
  memory.request_length = 0xFFFF'FFFF;
  EXPECT_EQ(daemon.take().bytes.size(), abi::kPageRequestMax);
  memory.state = static_cast<State>(77);
  EXPECT_FALSE(daemon.has_request());
  EXPECT_TRUE(daemon.stop_polling());
  EXPECT_FALSE(daemon.answer(record_of(300, 2), true)) << "there is no request";
  memory.state = State::kPolled;
  memory.reply_length = 0xFFFF'FFFF;
  std::vector<std::byte> reply(8'192);
  EXPECT_EQ(program.answer(reply), abi::kPageReplyMax);
}

TEST(CommandPagePoller, ServesABoundedNumberInTurn) {
  std::vector<abi::CommandPage> memories(CommandPagePoller::kExpectedMax + 1);
  std::vector<CommandPage> pages(memories.begin(), memories.end());
  CommandPagePoller poller;
  EXPECT_EQ(poller.next(), 0U);
  for (std::uint64_t id = 1; id <= CommandPagePoller::kExpectedMax; ++id) {
    EXPECT_TRUE(poller.expect(id, pages[id - 1]));
    EXPECT_TRUE(poller.expect(id, pages[id - 1])) << "repeating it changes nothing";
  }
  EXPECT_FALSE(poller.expect(77, pages.back()));
  EXPECT_FALSE(poller.any_request());
  for (abi::CommandPage& memory : memories) {
    memory.state = State::kRequested;
  }
  EXPECT_TRUE(poller.any_request());
  std::vector<bool> served(CommandPagePoller::kExpectedMax + 1);
  for (std::size_t i = 0; i < CommandPagePoller::kExpectedMax; ++i) {
    served[poller.next()] = true;
  }
  EXPECT_EQ(std::count(served.begin(), served.end(), true),
            static_cast<std::ptrdiff_t>(CommandPagePoller::kExpectedMax));
  poller.forget(1);
  EXPECT_TRUE(poller.expect(77, pages.back()));
}

TEST(CommandPagePoller, StopsOnceThereAreNoRequests) {
  std::vector<abi::CommandPage> memories(2);
  std::vector<CommandPage> pages(memories.begin(), memories.end());
  CommandPagePoller poller;
  for (const std::uint64_t id : {1U, 2U}) {
    ASSERT_TRUE(poller.expect(id, pages[id - 1]));
    pages[id - 1].start_polling();
  }
  memories[1].state = State::kRequested;
  EXPECT_FALSE(poller.stop_all());
  EXPECT_EQ(memories[0].state, State::kNotPolled);
  EXPECT_EQ(poller.next(), 2U);
  memories[1].state = State::kPolled;
  EXPECT_TRUE(poller.stop_all());
  EXPECT_EQ(memories[1].state, State::kNotPolled);
  EXPECT_TRUE(poller.stop_all()) << "no page is polled";
}

// A program with a device open, whose page is mapped.
class CommandPageServerTest : public ServerTest {
 protected:
  CommandPageServerTest() {
    Answer opened = ask(connection, abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
    const auto reply = opened.as<abi::OpenDeviceReply>();
    const std::size_t doorbells = reply.workers * reply.doorbells_stride;
    length = doorbells + sizeof(abi::CommandPage);
    memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED,
                    opened.record.descriptors[1].get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    descriptor = std::move(opened.record.descriptors[1]);
    page = reinterpret_cast<abi::CommandPage*>(static_cast<std::byte*>(memory) + doorbells);
    program.attach(page);
  }
  ~CommandPageServerTest() override { ::munmap(memory, length); }
  void seal() const { ASSERT_EQ(::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0); }

  // Sends commands by the socket until control polls the page and takes this one there.
  template <typename Body>
  void ask_page(abi::Command command, const Body& body) {
    const Record record = make_record(command, body, 9);
    for (int tries = 0; tries < 10'000; ++tries) {
      if (asks_at_once(record)) {
        return;
      }
    }
    FAIL() << "control never polled";
  }
  // Whether control polls after an answer by the socket, and takes this record.
  bool asks_at_once(const Record& record) {
    EXPECT_EQ(ask(connection, abi::Command::kListDevices).header.error, 0);
    for (int looks = 0; looks < 100; ++looks) {
      if (program.ask(record.bytes)) {
        return true;
      }
    }
    return false;
  }
  // After invalid input: reads all answers still due on the socket; until they are read, control
  // serves nothing more. The last one follows everything that control may have taken from the page.
  void calm_down() {
    constexpr std::uint32_t kLast = 0x10101;
    const Record last = make_record(abi::Command::kListDevices, abi::RequestHeader{}, kLast);
    std::byte reply[4'096];
    page->state = State::kNotPolled;
    while (::send(connection.get(), last.bytes.data(), last.bytes.size(),
                  MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      ASSERT_GT(::recv(connection.get(), reply, sizeof(reply), 0), 0);
    }
    for (Answer next; next.header.sequence != kLast;) {
      next = receive(connection);
      ASSERT_NE(next.header.error, -1) << "no further answer came";
    }
    program.forget();
  }
  // Waits for the answer in the page; false: it comes by the socket instead.
  bool wait() {
    const Time until = monotonic_now() + 10 * kNanosecondsPerSecond;
    return program.wait([until] { return monotonic_now() < until; });
  }

  UniqueFd connection = connect();
  UniqueFd descriptor;  // of the memory
  std::size_t length = 0;
  void* memory = nullptr;
  abi::CommandPage* page = nullptr;
  shim::CommandPage program;
};

TEST_F(CommandPageServerTest, AnswersOnTheChannelOfTheRequest) {
  seal();
  ask_page(abi::Command::kAllocPd, abi::RequestHeader{});
  ASSERT_TRUE(wait());
  abi::HandleReply reply{};
  ASSERT_EQ(program.answer(std::as_writable_bytes(std::span(&reply, 1))), sizeof(reply));
  EXPECT_EQ(reply.header.error, 0) << reply.header.message;
  EXPECT_EQ(reply.header.sequence, 9U);
  EXPECT_EQ(ask(connection, abi::Command::kDeallocPd, abi::HandleRequest{{}, reply.handle, 0})
                .header.error,
            0)
      << "the socket still works, too";
}

TEST_F(CommandPageServerTest, SendsLongAnswersAndDescriptorsBySocket) {
  seal();
  abi::CreateCqRequest request{};
  request.entries = 4;
  ask_page(abi::Command::kCreateCq, request);
  ASSERT_FALSE(wait());
  const Answer made = receive(connection);
  program.forget();
  EXPECT_EQ(made.header.error, 0) << made.message();
  EXPECT_EQ(made.record.descriptors.size(), made.header.descriptor_count);
  ask_page(abi::Command::kStatus, abi::RequestHeader{});
  ASSERT_FALSE(wait());
  EXPECT_EQ(receive(connection).header.sequence, 9U);
}

TEST_F(CommandPageServerTest, AnInvalidRecordIsRefusedAsOnTheSocket) {
  seal();
  ask_page(static_cast<abi::Command>(4'711), abi::RequestHeader{});
  ASSERT_TRUE(wait());
  abi::ReplyHeader reply{};
  ASSERT_EQ(program.answer(std::as_writable_bytes(std::span(&reply, 1))), sizeof(reply));
  EXPECT_EQ(reply.error, EOPNOTSUPP);
}

TEST_F(CommandPageServerTest, IsUsedOnlyIfItsMemoryIsSealed) {
  const Record record = make_record(abi::Command::kListDevices, abi::RequestHeader{});
  for (int tries = 0; tries < 100; ++tries) {
    EXPECT_FALSE(asks_at_once(record));
  }
  const auto punch = [this] {
    return ::fallocate(descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4'096);
  };
  EXPECT_EQ(punch(), 0);
  seal();
  EXPECT_EQ(punch(), -1);
  ask_page(abi::Command::kListDevices, abi::RequestHeader{});
  EXPECT_TRUE(wait());
}

// Whatever a program writes into its page, and whenever: others are answered.
TEST_F(CommandPageServerTest, AProgramThatCorruptsItsPageHarmsOnlyItself) {
  seal();
  const UniqueFd other = connect();
  std::mt19937 random(7);
  const Record record = make_record(abi::Command::kListDevices, abi::RequestHeader{});
  std::byte reply[4'096];
  for (int i = 0; i < 20'000; ++i) {
    std::copy(record.bytes.begin(), record.bytes.end(), page->request);
    if (random() % 4 == 0) {  // after the version, a change of which would end the connection
      page->request[8 + random() % (sizeof(abi::RequestHeader) - 8)] = std::byte(random());
    }
    page->request_length =
        static_cast<std::uint32_t>(random() % 2 == 0 ? record.bytes.size() : random());
    page->state = static_cast<State>(random() % 6);
    if (i % 100 == 0) {
      ASSERT_EQ(ask(other, abi::Command::kListDevices).header.error, 0) << i;
    }
    if (i % 7 == 0) {  // keeps control polling
      (void)::send(connection.get(), record.bytes.data(), record.bytes.size(),
                   MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    while (::recv(connection.get(), reply, sizeof(reply), MSG_DONTWAIT) > 0) {
    }
  }
  EXPECT_EQ(ask(other, abi::Command::kListDevices).header.error, 0);
  calm_down();
  ask_page(abi::Command::kAllocPd, abi::RequestHeader{});
  EXPECT_TRUE(wait()) << "it is served as before";
}

}  // namespace
}  // namespace uroce::control
