// What rdma-core 49 to 65 added: buffers, regions by attributes, a port's speed, names of requests.

#include "verbs_shim/objects/newer_verbs.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

using shim::Buffer;
using shim::MrInitAttr;

class NewerVerbs : public VerbsFixture {
 protected:
  ibv_mr* register_by(const MrInitAttr& attr) {
    errno = 0;
    return shim::reg_mr_ex(pd, &attr);
  }
  void expect_refused(const MrInitAttr& attr, int error) {
    EXPECT_EQ(register_by(attr), nullptr);
    EXPECT_EQ(errno, error);
  }
  static MrInitAttr at(void* address, std::size_t length) {
    MrInitAttr attr{};
    attr.comp_mask = shim::kMrHasAddress;
    attr.address = address;
    attr.length = length;
    attr.access = IBV_ACCESS_LOCAL_WRITE;
    return attr;
  }

  alignas(4'096) char memory[8'192] = {};
};

TEST_F(NewerVerbs, ABufferIsWholePagesThatCanBeRegistered) {
  Buffer* buffer = nullptr;
  void* start = shim::alloc_buf(pd, 5'000, &buffer);
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(start) % 4'096, 0U);
  std::memset(start, 1, 5'000);
  ibv_mr* mr = shim::reg_buf_mr(pd, buffer, start, 5'000, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, start);
  EXPECT_EQ(mr->length, 5'000U);
  EXPECT_EQ(shim::export_buf_dmabuf_fd(buffer), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  shim::free_buf(buffer);
}

TEST_F(NewerVerbs, NothingOutsideABufferIsRegistered) {
  Buffer* buffer = nullptr;
  auto* start = static_cast<char*>(shim::alloc_buf(pd, 5'000, &buffer));
  ASSERT_NE(start, nullptr);
  for (const auto& [first, length] : {std::pair{start, std::size_t{5'001}},
                                      {start + 1, 5'000},
                                      {start - 1, 10},
                                      {memory, 10},
                                      {start, SIZE_MAX}}) {
    errno = 0;
    EXPECT_EQ(shim::reg_buf_mr(pd, buffer, first, length, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(shim::reg_buf_mr(pd, nullptr, start, 1, 0), nullptr);
  ibv_pd* another = ibv_alloc_pd(context);
  EXPECT_EQ(shim::reg_buf_mr(another, buffer, start, 1, 0), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(another), 0);
  shim::free_buf(buffer);
  shim::free_buf(nullptr);
}

TEST_F(NewerVerbs, ABufferHasASize) {
  Buffer* buffer = nullptr;
  EXPECT_EQ(shim::alloc_buf(pd, 0, &buffer), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(shim::alloc_buf(pd, SIZE_MAX, &buffer), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(NewerVerbs, ARegionIsMadeByItsAttributes) {
  MrInitAttr attr = at(memory, sizeof(memory));
  attr.comp_mask |= shim::kMrHasIova;
  attr.iova = 0x10'0000;
  ibv_mr* mr = register_by(attr);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(NewerVerbs, UnsupportedAttributesOfARegionAreRefused) {
  MrInitAttr nowhere = at(memory, 10);
  nowhere.comp_mask = 0;
  expect_refused(nowhere, EINVAL);
  MrInitAttr twice = at(memory, 10);
  twice.comp_mask |= shim::kMrHasDescriptor | shim::kMrHasOffset;
  expect_refused(twice, EINVAL);
  MrInitAttr without_offset = at(memory, 10);
  without_offset.comp_mask = shim::kMrHasDescriptor;
  expect_refused(without_offset, EINVAL);
  MrInitAttr tagged = at(memory, 10);
  tagged.comp_mask |= shim::kMrHasTags;
  expect_refused(tagged, EOPNOTSUPP);
  MrInitAttr unknown = at(memory, 10);
  unknown.comp_mask |= 1U << 6U;
  expect_refused(unknown, EOPNOTSUPP);
}

// The fake daemon's port is one lane of SDR.
TEST_F(NewerVerbs, SpeedIsCountedIn100Megabit) {
  std::uint64_t speed = 0;
  ASSERT_EQ(shim::query_port_speed(context, 1, &speed), 0);
  EXPECT_EQ(speed, 25U);
  EXPECT_EQ(shim::query_port_speed(context, 0, &speed), EINVAL);
  EXPECT_EQ(shim::query_port_speed(context, 257, &speed), EINVAL);
}

TEST_F(NewerVerbs, RequestsHaveNames) {
  EXPECT_STREQ(shim::wr_opcode_str(IBV_WR_RDMA_WRITE), "rdma-write");
  EXPECT_STREQ(shim::wr_opcode_str(IBV_WR_ATOMIC_WRITE), "atomic-write");
  EXPECT_STREQ(shim::wr_opcode_str(14), "flush");
  EXPECT_STREQ(shim::wr_opcode_str(12), "unknown");
  EXPECT_STREQ(shim::wr_opcode_str(16), "unknown");
  EXPECT_STREQ(shim::wr_opcode_str(-1), "unknown");
}

// A domain whose memory may stay unprotected on a confidential machine is an ordinary one here.
TEST_F(NewerVerbs, AParentDomainMayAllowUnprotectedMemory) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  attr.comp_mask = shim::kDomainAllowsUnprotected;
  ibv_pd* parent = ibv_alloc_parent_domain(context, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  attr.comp_mask = 1U << 3U;
  EXPECT_EQ(ibv_alloc_parent_domain(context, &attr), nullptr);
}

}  // namespace
}  // namespace uroce::test
