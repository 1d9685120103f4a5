// UROCE_HOOKS. Each test runs in a process of its own, since the variable is read once.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/stand_in.h"
#include "verbs_shim/memory/hooks/hook_choice.h"
#include "verbs_shim/memory/paging/paging.h"

namespace uroce::test {
namespace {

void choose(const char* value) {
  ::setenv("UROCE_HOOKS", value, 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

// The first bytes of libc's functions.
using Beginnings = std::map<std::string, std::array<char, 16>>;

Beginnings beginnings() {
  Beginnings result;
  void* const libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  for (const char* const name :
       {"mmap", "munmap", "mremap", "madvise", "mprotect", "shmdt", "brk"}) {
    std::memcpy(result[name].data(), ::dlsym(libc, name), result[name].size());
  }
  return result;
}

TEST(HookChoice, WithoutHooksNothingOfLibcIsTouched) {
  if (!is_fresh_process()) {
    return;
  }
  choose("none");
  const Beginnings before = beginnings();
  StandIn daemon;
  std::uint64_t* const memory = map_filled(4 * kPage);
  const Registered shared = daemon.share(memory, 4 * kPage);
  EXPECT_EQ(shared.error, 0U);
  EXPECT_EQ(shared.remote_pieces, 1U) << "private memory is left alone";
  EXPECT_FALSE(shim::PagingSession::open({}, {}));
  EXPECT_EQ(beginnings(), before);
  // The guarantees of private memory hold without hooks.
  EXPECT_EQ(::madvise(memory, 4 * kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(memory[0], 0U);
  EXPECT_EQ(daemon.load(memory), 0U);
  EXPECT_TRUE(daemon.store(memory, 5));
  EXPECT_EQ(memory[0], 5U);
}

TEST(HookChoice, WithoutHooksOnlySharedMappingsAreShared) {
  if (!is_fresh_process()) {
    return;
  }
  choose("none");
  StandIn daemon;
  auto* const memory = static_cast<std::uint64_t*>(
      ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const Registered shared = daemon.share(memory, 4 * kPage);
  EXPECT_EQ(shared.error, 0U);
  EXPECT_EQ(shared.remote_pieces, 0U);
  EXPECT_TRUE(daemon.store(memory, 5));
  EXPECT_EQ(memory[0], 5U);
}

TEST(HookChoice, MessagesNameWhatHooksAreNeededFor) {
  if (!is_fresh_process()) {
    return;
  }
  choose("none");
  const DoneOrRefusal allowed = shim::PagingSession::allowed();
  ASSERT_FALSE(allowed);
  EXPECT_EQ(allowed.error().code, EOPNOTSUPP);
  EXPECT_NE(allowed.error().message.view().find("UROCE_HOOKS=none"), std::string_view::npos);
  const auto session = shim::PagingSession::open({}, {});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, EOPNOTSUPP);
  std::uint64_t* const memory = map_filled(kPage);
  const auto description =
      shim::describe_memory(reinterpret_cast<std::uintptr_t>(memory), kPage, kAccessLocalWrite);
  ASSERT_TRUE(description);
  EXPECT_NE(description->unconverted_reason.view().find("UROCE_HOOKS=none"),
            std::string_view::npos);
  shim::release_memory(description->held);
}

// Sandboxes and emulators that run programs needn't pass AT_PHDR.
TEST(HookChoice, AProgramWithoutHeadersIsLookedUp) {
  EXPECT_FALSE(shim::is_statically_linked({})) << "this one isn't";
  ElfW(Phdr) header{};
  header.p_type = PT_LOAD;
  EXPECT_TRUE(shim::is_statically_linked({&header, 1}));
  header.p_type = PT_INTERP;
  EXPECT_FALSE(shim::is_statically_linked({&header, 1}));
}

TEST(HookChoice, AnInvalidValueIsReportedAndHooksAreInstalled) {
  if (!is_fresh_process()) {
    return;
  }
  choose("all");
  const Beginnings before = beginnings();
  StandIn daemon;
  testing::internal::CaptureStderr();
  const Registered shared = daemon.share(map_filled(kPage), kPage);
  const Registered again = daemon.share(map_filled(kPage), kPage);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "uroce: UROCE_HOOKS is \"all\", but only \"patch\" and \"none\" are known: \"patch\" "
            "is taken\n");
  EXPECT_EQ(shared.remote_pieces + again.remote_pieces, 0U);
  EXPECT_NE(beginnings(), before);
}

}  // namespace
}  // namespace uroce::test
