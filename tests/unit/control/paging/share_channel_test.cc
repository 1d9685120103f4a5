// Accounting of a program's share channel to its user.

#include "control/paging/share_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "abi/paging_records.h"
#include "abi/version.h"
#include "mmu/quiescence.h"

namespace uroce::control {
namespace {

Record arena_record() {
  const abi::PagingArena body{.header = {.version = abi::kVersion,
                                         .kind = abi::PagingKind::kArena,
                                         .length = sizeof(abi::PagingArena),
                                         .descriptor_count = 1},
                              .page_size = Mirror::kPage};
  Record record;
  record.bytes.resize(sizeof(body));
  std::memcpy(record.bytes.data(), &body, sizeof(body));
  UniqueFd& arena =
      record.descriptors.emplace_back(::memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(arena.get(), Mirror::kPage), 0);
  EXPECT_EQ(::fcntl(arena.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return record;
}

TEST(ShareChannel, AnArenaBeyondItsUsersLimitEndsIt) {
  Shares shares;
  shares.set_limits({.of_everybody = {{Limit::kDescriptors, 2}}, .of_user = {}});
  const auto account = shares.of({.uid = ::geteuid() + 1});
  Quiescence quiescence;
  {
    const auto mirror = std::make_shared<Mirror>(quiescence, UniqueFd(), 1, account);
    ShareChannel::Lines lines;
    ShareChannel channel(mirror, nullptr, {::getpid(), ::getuid(), 0}, 1, lines);
    ShareChannel::Answer answer;
    for (int arena = 0; arena < 2; ++arena) {
      EXPECT_EQ(channel.handle_record(ReceiveStatus::kRecord, arena_record(), {}, &answer),
                ShareChannel::AnswerStatus::kArena);
    }
    EXPECT_EQ(account->used(Limit::kDescriptors), 2U);
    EXPECT_EQ(channel.handle_record(ReceiveStatus::kRecord, arena_record(), {}, &answer),
              ShareChannel::AnswerStatus::kBroken);
  }
  EXPECT_EQ(account->used(Limit::kDescriptors), 0U);
}

// A program may open its channels again and again.
TEST(ShareChannel, ALineAboutMemoryThatCantBeReachedIsntRepeatedAtOnce) {
  Shares shares;
  shares.set_limits({.of_everybody = {{Limit::kDescriptors, 0}}, .of_user = {}});
  Quiescence quiescence;
  const auto mirror =
      std::make_shared<Mirror>(quiescence, UniqueFd(), 17, shares.of({.uid = ::geteuid() + 1}));
  ShareChannel::Lines lines;
  testing::internal::CaptureStdout();
  for (int opened = 0; opened < 3; ++opened) {
    ShareChannel channel(mirror, nullptr, {::getpid(), ::getuid(), 0}, 1, lines);
    ShareChannel::Answer answer;
    EXPECT_EQ(channel.handle_record(ReceiveStatus::kRecord, arena_record(), {}, &answer),
              ShareChannel::AnswerStatus::kBroken);
  }
  spdlog::default_logger()->flush();
  const std::string said = testing::internal::GetCapturedStdout();
  const std::size_t first = said.find("session 17: its memory can't be reached");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("session 17", first + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace uroce::control
