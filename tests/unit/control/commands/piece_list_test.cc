// A region in more pieces than fit into a record: the list is passed as a file.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "tests/unit/control/paging/paging_program.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class PieceListTest : public ::testing::Test {
 protected:
  PieceListTest() {
    program.open();
    pd = program.make_pd();
  }

  // The memory's pages, each a piece that is reached by copying.
  std::vector<abi::MemoryPiece> pages(std::size_t count) {
    memory.resize((count + 1) * kPage);
    const std::uint64_t first =
        (reinterpret_cast<std::uintptr_t>(memory.data()) + kPage - 1) / kPage * kPage;
    std::vector<abi::MemoryPiece> pieces(count);
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i] = {.address = first + i * kPage,
                   .length = kPage,
                   .offset = 0,
                   .map_start = 0,
                   .map_end = 0,
                   .kind = abi::PieceKind::kProcMem,
                   .source = 0};
    }
    return pieces;
  }
  static UniqueFd list_of(const std::vector<abi::MemoryPiece>& pieces,
                          int seals = abi::kPieceListSeals) {
    UniqueFd file(::memfd_create("pieces", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const auto bytes = static_cast<ssize_t>(pieces.size() * sizeof(abi::MemoryPiece));
    EXPECT_EQ(::write(file.get(), pieces.data(), static_cast<std::size_t>(bytes)), bytes);
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    return file;
  }
  Answer reg(const std::vector<abi::MemoryPiece>& pieces, std::size_t count, UniqueFd file) {
    abi::RegMrRequest request{};
    request.pd = pd;
    request.address = request.iova = pieces.front().address;
    request.length = pieces.size() * kPage;
    request.access = kAccessLocalWrite;
    request.piece_count = static_cast<std::uint32_t>(count);
    request.pieces_in_file = 1;
    Record record = make_record(abi::Command::kRegMr, request, 5);
    if (file.valid()) {
      constexpr std::uint32_t kOne = 1;
      std::memcpy(record.bytes.data() + offsetof(abi::RequestHeader, descriptor_count), &kOne,
                  sizeof(kOne));
      record.descriptors.push_back(std::move(file));
    }
    return program.send(std::move(record));
  }
  void expect_refusal(const Answer& answer, int error, const char* says) {
    EXPECT_EQ(answer.header.error, error) << answer.message();
    EXPECT_NE(answer.message().find(says), std::string::npos) << answer.message();
  }

  Rig rig;
  Program program{rig};
  std::uint32_t pd = 0;
  std::vector<std::byte> memory;
};

TEST_F(PieceListTest, MakesARegion) {
  const auto pieces = pages(700);
  const Answer answer = reg(pieces, pieces.size(), list_of(pieces));
  ASSERT_EQ(answer.header.error, 0) << answer.message();
  const auto region = answer.as<abi::RegMrReply>();
  const Region* found = nullptr;
  std::uint64_t address = pieces[650].address;
  EXPECT_EQ(rig.card.keys().check_remote(region.rkey, {.pd = 1, .qpn = 17}, &address, 50 * kPage,
                                         kAccessLocalWrite, &found),
            Access::kGranted);
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, region.handle).header.error, 0);
}

// Otherwise the program could change the list while the daemon reads it, or make the daemon block.
TEST_F(PieceListTest, MustBeSealed) {
  const auto pieces = pages(600);
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE}) {
    expect_refusal(reg(pieces, 600, list_of(pieces, abi::kPieceListSeals & ~missing)), EINVAL,
                   "sealed");
  }
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd other_end(ends[1]);
  expect_refusal(reg(pieces, 600, UniqueFd(ends[0])), EINVAL, "sealed");
  expect_refusal(reg(pieces, 600, UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))), EINVAL,
                 "sealed");
}

TEST_F(PieceListTest, MustBeAsLongAsTheRecordSays) {
  const auto pieces = pages(600);
  expect_refusal(reg(pieces, 601, list_of(pieces)), EINVAL, "length");
  expect_refusal(reg(pieces, 599, list_of(pieces)), EINVAL, "length");
  expect_refusal(reg(pieces, 600, {}), EBADMSG, "didn't come");
}

TEST_F(PieceListTest, IsBounded) {
  const auto pieces = pages(1);
  expect_refusal(reg(pieces, abi::kPieceListMax + 1, list_of(pieces)), ENOMEM, "at most 65536");
  expect_refusal(reg(pieces, ~std::uint32_t{0}, list_of(pieces)), ENOMEM, "at most 65536");
}

// The list itself doesn't count as one of the files that pieces may refer to.
TEST_F(PieceListTest, NamesOnlyDescriptorsOfTheRecord) {
  auto pieces = pages(600);
  pieces[599].kind = abi::PieceKind::kDescriptor;
  expect_refusal(reg(pieces, 600, list_of(pieces)), EBADMSG, "descriptor");
}

TEST_F(PieceListTest, ItsPiecesAreChecked) {
  auto pieces = pages(600);
  pieces[300].address += kPage;
  EXPECT_EQ(reg(pieces, 600, list_of(pieces)).header.error, EINVAL);
}

}  // namespace
}  // namespace uroce::control
