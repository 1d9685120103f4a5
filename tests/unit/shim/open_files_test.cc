// What happens when a process may open no more files, or the daemon sends invalid records.

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::test {
namespace {

// While it exists, the process can't open new descriptors.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = dup(0);
    close(lowest_free);
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(lowest_free), .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

class OpenFiles : public VerbsFixture {
 protected:
  [[nodiscard]] ibv_qp_init_attr small_qp() const {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 2;
    attr.qp_type = IBV_QPT_RC;
    return attr;
  }
};

TEST_F(OpenFiles, AnObjectWhoseDescriptorIsLostIsDestroyed) {
  {
    const NoMoreFiles none;
    EXPECT_EQ(ibv_create_cq(context, 4, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(daemon.last_command(), abi::Command::kDestroyCq);
    EXPECT_EQ(daemon.last_handle(), FakeDaemon::kCqHandle);
    EXPECT_EQ(ibv_create_comp_channel(context), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(daemon.last_command(), abi::Command::kDestroyChannel);
  }
  ibv_cq* later = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ASSERT_NE(later, nullptr) << "the connection still works";
  EXPECT_EQ(ibv_destroy_cq(later), 0);
}

TEST_F(OpenFiles, AQueuePairWhoseRingsCantBeMappedIsDestroyed) {
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  ibv_context* const other = ibv_open_device(context->device);
  ASSERT_NE(other, nullptr);
  ibv_qp_init_attr attr = small_qp();
  ibv_pd* const other_pd = ibv_alloc_pd(other);
  {
    const NoMoreFiles none;
    EXPECT_EQ(ibv_create_qp(other_pd, &attr), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(daemon.last_command(), abi::Command::kDestroyQp);
  }
  EXPECT_EQ(ibv_dealloc_pd(other_pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
  make_qp();
}

TEST_F(OpenFiles, AMemoryOfOneQueuePairIsUnmappedWithIt) {
  daemon.make_rings_of_one();
  ibv_context* const other = ibv_open_device(context->device);
  ASSERT_NE(other, nullptr);
  ibv_qp_init_attr attr = small_qp();
  ibv_pd* const other_pd = ibv_alloc_pd(other);
  const std::uint32_t before = daemon.rings_mapped();
  for (int i = 0; i < 3; ++i) {
    ibv_qp* const deep = ibv_create_qp(other_pd, &attr);
    ASSERT_NE(deep, nullptr);
    EXPECT_EQ(ibv_destroy_qp(deep), 0);
  }
  EXPECT_EQ(daemon.rings_mapped() - before, 3U) << "the earlier mapping is gone";
  EXPECT_EQ(ibv_dealloc_pd(other_pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(OpenFiles, RingsInMappedMemoryNeedNoDescriptor) {
  ibv_qp_init_attr attr = small_qp();
  for (int i = 0; i < 3; ++i) {
    const NoMoreFiles none;
    ibv_qp* const more = ibv_create_qp(pd, &attr);
    ASSERT_NE(more, nullptr);
    EXPECT_EQ(ibv_destroy_qp(more), 0);
  }
  ASSERT_EQ(ibv_destroy_qp(qp), 0) << "the last one";
  make_qp();
  EXPECT_EQ(daemon.rings_mapped(), 1U);
}

TEST_F(OpenFiles, InvalidRecordsEndTheConnectionForBoth) {
  daemon.answer_out_of_order();
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(context, &attributes), ENODEV);
  char byte = 0;
  EXPECT_EQ(recv(shim::of(context)->client.descriptor(), &byte, 1, MSG_DONTWAIT), 0)
      << "the daemon isn't told";
}

}  // namespace
}  // namespace uroce::test
