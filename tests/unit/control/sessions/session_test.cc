// Records as sent by a program or by an attacker.

#include "control/sessions/session.h"
#include "abi/device_records.h"
#include "abi/version.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <nlohmann/json.hpp>
#include <random>

#include "control/commands/command_table.h"
#include "control/ip/limits.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  Rig rig;
  Program program{rig};
};

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) != -1; }

TEST_F(SessionTest, ListsDevicesWithoutOpeningOne) {
  const auto list = program.ask(abi::Command::kListDevices).as<abi::ListDevicesReply>();
  ASSERT_EQ(list.count, 1U);
  EXPECT_STREQ(list.devices[0].name, "uroce0");
  EXPECT_EQ(list.devices[0].vendor_part_id, 26428U);
  EXPECT_NE(list.devices[0].node_guid, 0U);
}

// As the kernel's numbers of devices: librdmacm takes a device with the same one for the same.
TEST_F(SessionTest, ADeviceOfEachStartIsAnotherInstance) {
  Rig restarted;
  Program other{restarted};
  const auto before = program.ask(abi::Command::kListDevices).as<abi::ListDevicesReply>();
  const auto now = other.ask(abi::Command::kListDevices).as<abi::ListDevicesReply>();
  EXPECT_EQ(before.devices[0].index, now.devices[0].index);
  EXPECT_NE(before.devices[0].instance, now.devices[0].instance);
  for (const abi::ListDevicesReply* list : {&before, &now}) {
    EXPECT_GT(static_cast<int>(list->devices[0].instance), 0);
  }
}

TEST_F(SessionTest, OpeningGivesOneDescriptorOfEachKind) {
  const Answer answer = program.ask(abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
  ASSERT_EQ(answer.header.error, 0) << answer.message();
  const auto body = answer.as<abi::OpenDeviceReply>();
  EXPECT_EQ(body.workers, 2U);
  EXPECT_EQ(body.device.instance, rig.card.devices()[0].instance());
  EXPECT_EQ(answer.record.descriptors.size(), 4U + body.workers);
  EXPECT_EQ(answer.header.descriptor_count, answer.record.descriptors.size());
  // Programs can read the status pages, but not write them.
  const int status = answer.record.descriptors[2].get();
  EXPECT_NE(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, status, 0), MAP_FAILED);
  const int doorbells = answer.record.descriptors[1].get();
  EXPECT_EQ(::ftruncate(doorbells, 0), -1) << "sealed";
  EXPECT_EQ(program.ask(abi::Command::kOpenDevice, abi::OpenDeviceRequest{}).header.error, EBUSY);
}

TEST_F(SessionTest, QueriesAnswerWhatProgramsExpect) {
  program.open();
  abi::QueryPortRequest port{};
  port.port = 1;
  const auto port_reply = program.ask(abi::Command::kQueryPort, port).as<abi::QueryPortReply>();
  EXPECT_EQ(port_reply.state, 4U);
  EXPECT_EQ(port_reply.active_mtu, 5U);
  EXPECT_EQ(port_reply.gid_count, kGidsMax);
  port.port = 2;
  EXPECT_EQ(program.ask(abi::Command::kQueryPort, port).header.error, EINVAL);

  abi::QueryGidRequest gid{};
  gid.port = 1;
  gid.index = 1;
  const auto gid_reply = program.ask(abi::Command::kQueryGid, gid).as<abi::QueryGidReply>();
  EXPECT_EQ(gid_reply.gid[12], 10);
  EXPECT_EQ(gid_reply.type, 2U);
  gid.index = 100;
  const Answer empty = program.ask(abi::Command::kQueryGid, gid);
  EXPECT_EQ(empty.header.error, 0);
  EXPECT_EQ(empty.as<abi::QueryGidReply>().gid[12], 0);
  gid.index = kGidsMax;
  EXPECT_EQ(program.ask(abi::Command::kQueryGid, gid).header.error, EINVAL);

  const auto device = program.ask(abi::Command::kQueryDevice).as<abi::QueryDeviceReply>();
  EXPECT_EQ(device.attributes.max_qp_rd_atom, kReadsAndAtomicsMax);
}

TEST_F(SessionTest, CommandsOfADeviceNeedOne) {
  const Answer answer = program.ask(abi::Command::kAllocPd);
  EXPECT_EQ(answer.header.error, EBADF);
  EXPECT_NE(answer.message().find("no device is open"), std::string::npos);
}

TEST_F(SessionTest, WrongMagicEndsTheConnection) {
  Record record = make_record(abi::Command::kListDevices, abi::RequestHeader{});
  record.bytes[0] ^= std::byte{1};
  EXPECT_EQ(program.send(std::move(record)).header.error, EBADMSG);
  EXPECT_TRUE(program.conversation.finished());
}

TEST_F(SessionTest, ARefusedVersionIsToldBothVersions) {
  abi::RequestHeader header;
  header.version = abi::kVersion + 1;
  header.sequence = 17;
  header.length = sizeof(header);
  Record record;
  record.bytes.resize(sizeof(header));
  std::memcpy(record.bytes.data(), &header, sizeof(header));
  const Answer answer = program.send(std::move(record));
  EXPECT_EQ(answer.header.error, EPROTONOSUPPORT);
  EXPECT_EQ(answer.header.sequence, 17U);
  EXPECT_NE(answer.message().find(std::to_string(abi::kVersion + 1)), std::string::npos);
}

TEST_F(SessionTest, LengthsAndCountsMustAgree) {
  for (const int change : {-4, 4}) {
    Record record = make_record(abi::Command::kOpenDevice, abi::OpenDeviceRequest{});
    record.bytes.resize(static_cast<std::size_t>(static_cast<int>(record.bytes.size()) + change));
    EXPECT_EQ(program.send(std::move(record)).header.error, EBADMSG);
  }
  EXPECT_EQ(program.ask(abi::Command::kOpenDevice, abi::RequestHeader{}).header.error, EBADMSG);
  EXPECT_EQ(program.ask(abi::Command::kListDevices, abi::OpenDeviceRequest{}).header.error,
            EBADMSG);
  EXPECT_EQ(program.ask(static_cast<abi::Command>(999)).header.error, EOPNOTSUPP);
  program.send(Record{});
  EXPECT_TRUE(program.conversation.finished());
}

TEST_F(SessionTest, DescriptorsOfBadRecordsAreClosed) {
  Record record = make_record(abi::Command::kListDevices, abi::RequestHeader{});
  const int descriptor = ::memfd_create("test", 0);
  record.descriptors.emplace_back(descriptor);
  EXPECT_EQ(program.send(std::move(record)).header.error, EBADMSG) << "the count is 0";
  EXPECT_FALSE(is_open(descriptor));

  program.open();
  Record unwanted = make_record(abi::Command::kAllocPd, abi::RequestHeader{});
  const int another = ::memfd_create("test", 0);
  unwanted.descriptors.emplace_back(another);
  const std::uint32_t one = 1;
  std::memcpy(unwanted.bytes.data() + offsetof(abi::RequestHeader, descriptor_count), &one,
              sizeof(one));
  EXPECT_EQ(program.send(std::move(unwanted)).header.error, EBADMSG) << "the command takes none";
  EXPECT_FALSE(is_open(another));
}

abi::ResolveGidRequest resolve_request(const char* peer) {
  abi::ResolveGidRequest request{};
  request.address.is_global = 1;
  request.address.port = 1;
  request.address.sgid_index = 1;
  std::copy_n(parse_ip(peer)->bytes.begin(), 16, request.address.dgid);
  return request;
}

TEST(SlowAddress, DelaysOnlyItsOwnSessionUntilResolved) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  Program slow(rig);
  Program quick(rig);
  slow.open();
  quick.open();
  EXPECT_EQ(slow.ask(abi::Command::kResolveGid, resolve_request("10.0.0.9")).header.error, -1);
  EXPECT_TRUE(slow.conversation.waiting());
  EXPECT_EQ(quick.ask(abi::Command::kAllocPd).header.error, 0);
  slow.conversation.resume();
  EXPECT_TRUE(slow.conversation.waiting()) << "still unknown";

  const EtherAddress peer{{2, 0, 0, 0, 0, 9}};
  Device& device = rig.card.devices().front();
  const auto announcement = build_arp_request(peer, *parse_ip("10.0.0.9"), *parse_ip("10.0.0.1"));
  EXPECT_TRUE(device.on_frame(announcement, rig.now));
  slow.conversation.resume();
  const Answer answer = slow.take();
  EXPECT_EQ(answer.header.error, 0) << answer.message();
  EXPECT_EQ(answer.as<abi::ResolveGidReply>().mac[5], 9);
}

TEST(SlowAddress, IsRefusedInBoundedTimeWithoutAnAnswer) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  Program program(rig);
  program.open();
  EXPECT_EQ(program.ask(abi::Command::kResolveGid, resolve_request("10.0.0.9")).header.error, -1);
  Device& device = rig.card.devices().front();
  const Time start = rig.now;
  while (!device.on_time(rig.now)) {
    rig.now = device.next_deadline();
  }
  EXPECT_LE(rig.now - start, 2 * kNanosecondsPerSecond);
  program.conversation.resume();
  EXPECT_EQ(program.take().header.error, EHOSTUNREACH);
  EXPECT_FALSE(program.conversation.waiting());
}

TEST_F(SessionTest, StatusComesInPiecesAndNamesEveryQp) {
  program.open();
  const std::uint32_t pd = program.make_pd();
  const std::uint32_t cq = program.make_cq();
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq)).header.error, 0);
  }
  Answer answer = program.ask(abi::Command::kStatus);
  std::string text;
  int pieces = 1;
  for (;; ++pieces) {
    EXPECT_LE(answer.record.bytes.size(), kRecordMax);
    text.append(
        reinterpret_cast<const char*>(answer.record.bytes.data()) + sizeof(abi::ReplyHeader),
        answer.record.bytes.size() - sizeof(abi::ReplyHeader));
    if ((answer.header.flags & abi::kReplyMore) == 0) {
      break;
    }
    answer = program.take();
  }
  EXPECT_GT(pieces, 1);
  std::size_t qps = 0;
  for (std::size_t at = text.find("\"qpn\""); at != std::string::npos;
       at = text.find("\"qpn\"", at + 1)) {
    ++qps;
  }
  EXPECT_EQ(qps, 300U);
  EXPECT_EQ(text.back(), '}');
}

// The whole status report, put together.
nlohmann::json status_of(Program& program, abi::Command command = abi::Command::kStatus) {
  std::string text;
  Answer answer = program.ask(command);
  for (;; answer = program.take()) {
    text.append(
        reinterpret_cast<const char*>(answer.record.bytes.data()) + sizeof(abi::ReplyHeader),
        answer.record.bytes.size() - sizeof(abi::ReplyHeader));
    if ((answer.header.flags & abi::kReplyMore) == 0) {
      return nlohmann::json::parse(text);
    }
  }
}

TEST_F(SessionTest, StatusShowsOthersProgramsToAdministratorsOnly) {
  program.open();
  Program other(rig, ::geteuid() + 1);
  other.open();
  for (Program* each : {&program, &other}) {
    const std::uint32_t pd = each->make_pd();
    const std::uint32_t cq = each->make_cq();
    ASSERT_EQ(each->ask(abi::Command::kCreateQp, each->rc_qp(pd, cq)).header.error, 0);
  }
  EXPECT_EQ(status_of(program)["sessions"].size(), 2U);
  const nlohmann::json shown = status_of(other);
  ASSERT_EQ(shown["sessions"].size(), 1U);
  EXPECT_EQ(shown["sessions"][0]["uid"], ::geteuid() + 1);
  ASSERT_EQ(shown["sessions"][0]["qps"].size(), 1U);
  EXPECT_TRUE(shown["sessions"][0]["qps"][0].at("rate_mbps").is_null()) << "it isn't limited";
  EXPECT_EQ(shown["devices"].size(), 1U) << "everybody may see ports";
  EXPECT_TRUE(shown["devices"][0]["hw_counters"].is_object());
}

TEST_F(SessionTest, TheStatusOfDevicesNamesNoPrograms) {
  program.open();
  const std::uint32_t cq = program.make_cq();
  ASSERT_EQ(program.ask(abi::Command::kCreateQp, program.rc_qp(program.make_pd(), cq)).header.error,
            0);
  const nlohmann::json whole = status_of(program);
  nlohmann::json devices = status_of(program, abi::Command::kDeviceStatus);
  EXPECT_TRUE(devices["sessions"].empty());
  EXPECT_FALSE(devices.contains("connections"));
  EXPECT_EQ(devices["devices"][0]["hw_counters"], whole["devices"][0]["hw_counters"]);
  EXPECT_EQ(devices["devices"][0]["addresses"], whole["devices"][0]["addresses"]);
}

TEST_F(SessionTest, AStatusReportIsMadeInSmallSteps) {
  program.open();
  const std::uint32_t pd = program.make_pd();
  const std::uint32_t cq = program.make_cq();
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq)).header.error, 0);
  }
  StatusReport report(rig.card, rig.connections, nullptr, program.session.peer(),
                      program.session.account());
  std::string text;
  int pieces = 0;
  for (; !report.done(); ++pieces) {
    const std::string piece = report.next();
    EXPECT_LT(piece.size(), 3 * kRecordMax);
    text += piece;
  }
  EXPECT_GT(pieces, 15);
  EXPECT_EQ(nlohmann::json::parse(text)["sessions"][0]["qps"].size(), 1'000U);
}

// Every command with random bodies: refused or served, and nothing else.
TEST_F(SessionTest, SurvivesRandomBodies) {
  std::mt19937 random(11);
  program.open();
  for (int i = 0; i < 20'000; ++i) {
    abi::RequestHeader header;
    header.version = abi::kVersion;
    const auto rules = command_rules();
    const std::size_t choice = random() % (rules.size() + 1);  // the last: no command
    const bool known = choice < rules.size();
    header.command = known ? rules[choice].command : abi::Command{};
    header.sequence = random() % 4;
    header.length = static_cast<std::uint32_t>(known ? rules[choice].length : sizeof(header));
    Record record;
    record.bytes.resize(header.length);
    for (std::byte& byte : record.bytes) {
      byte = static_cast<std::byte>(random() % 3 == 0 ? random() : random() % 3);
    }
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    program.conversation.receive(std::move(record));
    while (program.conversation.answering()) {
      program.conversation.answer_more();
    }
    program.conversation.outbox().clear();
    ASSERT_FALSE(program.conversation.waiting()) << "a loopback port resolves every address";
  }
}

}  // namespace
}  // namespace uroce::control
