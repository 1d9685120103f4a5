#include "apps/doctor/facts.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <cstdio>

#include "base/unique_fd.h"

namespace uroce::doctor {
namespace {

TEST(KernelFacts, AreThoseOfThisMachine) {
  const KernelFacts facts = gather_kernel();
  EXPECT_GE(facts.processors, 1U);
  EXPECT_TRUE(facts.pidfd);  // all kernels that the tests run on
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  EXPECT_EQ(facts.memlock_bytes, limit.rlim_cur);
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  int major = 0, minor = 0;
  ASSERT_EQ(std::sscanf(kernel.release, "%d.%d", &major, &minor), 2);
  if (major < 6) {
    EXPECT_FALSE(facts.procmap_query) << kernel.release;
  }
}

TEST(KernelFacts, DetectThatThePortIsTaken) {
  const UniqueFd holder(::socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 46);  // not used by any other test
  if (::bind(holder.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    GTEST_SKIP() << "the port is in use already";
  }
  EXPECT_TRUE(gather_kernel().roce_port_taken);
}

}  // namespace
}  // namespace uroce::doctor
