// Importing objects from another session: who may import what.

#include <poll.h>

#include "abi/device_records.h"
#include "abi/import_records.h"
#include "abi/memory_records.h"
#include "abi/paging_records.h"
#include "control/paging/paging_service.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class ImportTest : public ::testing::Test {
 protected:
  ImportTest() {
    exporter->open();
    pd = exporter->make_pd();
    region = exporter->session.regions.add(std::make_unique<MemoryRegion>());
    MemoryRegion& object = *exporter->session.regions.find(region);
    object.key = 0x501;
    object.length = 4096;
    object.pd = exporter->session.pds.find(pd);
    ++object.pd->users;
  }
  Answer open_with(const abi::ImportToken& ticket) {
    abi::OpenDeviceRequest request{};
    request.exporter = ticket;
    return importer.ask(abi::Command::kOpenDevice, request);
  }
  Answer import_mr(std::uint32_t into, std::uint32_t handle) {
    abi::ImportMrRequest request{};
    request.pd = into;
    request.handle = handle;
    return importer.ask(abi::Command::kImportMr, request);
  }

  Rig rig;
  std::optional<Program> exporter{rig};
  Program importer{rig};
  std::uint32_t pd = 0, region = 0;
};

TEST_F(ImportTest, ATicketAllowsTheImport) {
  ASSERT_EQ(open_with(exporter->session.ticket()).header.error, 0);
  const Answer imported = importer.ask_about(abi::Command::kImportPd, pd);
  ASSERT_EQ(imported.header.error, 0) << imported.message();
  const std::uint32_t ours = imported.as<abi::HandleReply>().handle;
  EXPECT_EQ(importer.session.pds.find(ours)->id, exporter->session.pds.find(pd)->id);
  const Answer answer = import_mr(ours, region);
  ASSERT_EQ(answer.header.error, 0) << answer.message();
  EXPECT_EQ(answer.as<abi::ImportMrReply>().lkey, 0x501U);
  EXPECT_EQ(answer.as<abi::ImportMrReply>().length, 4096U);
  EXPECT_EQ(importer.ask_about(abi::Command::kDeallocPd, ours).header.error, 0);
  EXPECT_NE(exporter->session.pds.find(pd), nullptr) << "the exporter keeps its own";
}

TEST_F(ImportTest, WithoutATicketThereIsNothingToImport) {
  ASSERT_EQ(open_with({}).header.error, 0);
  EXPECT_EQ(importer.ask_about(abi::Command::kImportPd, pd).header.error, EINVAL);
  EXPECT_EQ(import_mr(importer.make_pd(), region).header.error, EINVAL);
}

TEST_F(ImportTest, AForgedTicketIsRefused) {
  abi::ImportToken forged = exporter->session.ticket();
  forged.secret[3] = static_cast<std::uint8_t>(forged.secret[3] + 1);
  EXPECT_EQ(open_with(forged).header.error, EACCES);
  forged.session = 4711;
  EXPECT_EQ(open_with(forged).header.error, ENODEV);
}

TEST_F(ImportTest, ARegionIsImportedOnlyIntoItsOwnDomain) {
  ASSERT_EQ(open_with(exporter->session.ticket()).header.error, 0);
  const Answer answer = import_mr(importer.make_pd(), region);
  EXPECT_EQ(answer.header.error, EINVAL);
  EXPECT_NE(answer.message().find("another protection domain"), std::string::npos);
  EXPECT_EQ(import_mr(0, 4711).header.error, EINVAL);
}

TEST_F(ImportTest, WhenTheExporterIsGoneNothingCanBeImported) {
  ASSERT_EQ(open_with(exporter->session.ticket()).header.error, 0);
  exporter.reset();
  EXPECT_EQ(importer.ask_about(abi::Command::kImportPd, pd).header.error, ENODEV);
}

// The importer has no memory of its own that is paged, and the exporter answers no question.
TEST_F(ImportTest, AdviceAboutMemoryOfAnExporterThatHangsUpFails) {
  PagingQueues queues{2, {}};
  PagingService paging{queues, rig.quiescence()};
  ASSERT_TRUE(paging.start());
  rig.services.paging = &paging;
  Answer channels = exporter->ask(abi::Command::kOpenPaging);
  ASSERT_EQ(channels.record.descriptors.size(), 2U) << channels.message();
  abi::RegMrRequest wanted{};
  wanted.pd = pd;
  wanted.length = abi::kImplicitLength;
  wanted.access = kAccessLocalWrite | kAccessOnDemand;
  const Answer paged = exporter->ask(abi::Command::kRegMr, wanted);
  ASSERT_EQ(paged.header.error, 0) << paged.message();
  channels.record.descriptors.clear();
  ASSERT_EQ(open_with(exporter->session.ticket()).header.error, 0);
  const Answer imported = importer.ask_about(abi::Command::kImportPd, pd);
  ASSERT_EQ(imported.header.error, 0) << imported.message();

  // abi::AdviseMrRequest with one range.
  struct OneAdvice {
    abi::RequestHeader header;
    std::uint32_t pd;
    abi::Advice advice;
    std::uint32_t flags, sge_count;
    abi::AdviseSge range;
  };
  const OneAdvice advice{.header = {},
                         .pd = imported.as<abi::HandleReply>().handle,
                         .advice = abi::Advice::kPrefetch,
                         .flags = abi::kAdviseFlush,
                         .sge_count = 1,
                         .range = {0x7000'0000'0000, 4096, paged.as<abi::RegMrReply>().lkey}};
  importer.conversation.receive(make_record(abi::Command::kAdviseMr, advice));
  while (importer.conversation.waiting()) {
    pollfd event{.fd = paging.control_descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&event, 1, -1), 1);
    paging.control_woken();
    importer.conversation.resume();
  }
  EXPECT_EQ(importer.take().header.error, EFAULT);
  exporter.reset();
  rig.services.paging = nullptr;
}

class ImportedDeviceMemory : public ImportTest {
 protected:
  ImportedDeviceMemory() {
    abi::AllocDmRequest request{};
    request.length = kLength;
    theirs = exporter->ask(abi::Command::kAllocDm, request).as<abi::HandleReply>().handle;
    EXPECT_EQ(open_with(exporter->session.ticket()).header.error, 0);
  }
  static constexpr std::uint64_t kLength = 4096;
  std::uint32_t theirs = 0;
};

TEST_F(ImportedDeviceMemory, IsTheSameMemoryUnderAHandleOfTheImporters) {
  const Answer answer = importer.ask_about(abi::Command::kImportDm, theirs);
  ASSERT_EQ(answer.header.error, 0) << answer.message();
  EXPECT_EQ(answer.as<abi::ImportDmReply>().length, kLength);
  EXPECT_EQ(answer.record.descriptors.size(), 1U);
  const DeviceMemory* ours =
      importer.session.device_memories.find(answer.as<abi::ImportDmReply>().handle);
  EXPECT_EQ(ours->memory, exporter->session.device_memories.find(theirs)->memory);
  EXPECT_EQ(rig.card.shares().used(Limit::kDeviceMemory), kLength) << "counted once";
}

TEST_F(ImportedDeviceMemory, OutlivesItsExporter) {
  const auto ours =
      importer.ask_about(abi::Command::kImportDm, theirs).as<abi::ImportDmReply>().handle;
  exporter.reset();
  EXPECT_NE(importer.session.device_memories.find(ours)->memory->data(), nullptr);
  EXPECT_EQ(rig.card.shares().used(Limit::kDeviceMemory), kLength) << "the importer still holds it";
  EXPECT_EQ(importer.ask_about(abi::Command::kFreeDm, ours).header.error, 0);
  EXPECT_EQ(rig.card.shares().used(Limit::kDeviceMemory), 0U);
}

TEST_F(ImportedDeviceMemory, CountsAgainstTheProgramsLimit) {
  std::uint32_t imported = 0;
  Answer answer = importer.ask_about(abi::Command::kImportDm, theirs);
  for (; answer.header.error == 0; ++imported) {
    answer = importer.ask_about(abi::Command::kImportDm, theirs);
  }
  EXPECT_EQ(imported, kSessionDeviceMemoriesMax);
  EXPECT_EQ(answer.header.error, ENOMEM);
}

TEST_F(ImportedDeviceMemory, UnknownOnesAreRefused) {
  EXPECT_EQ(importer.ask_about(abi::Command::kImportDm, 4711).header.error, EINVAL);
}

}  // namespace
}  // namespace uroce::control
