// Writing into a peer's file so that a power cut loses nothing: RDMA WRITE, then FLUSH to
// persistence (IBTA annex A19). The peer has mapped the file and registered the mapping; when the
// FLUSH completes, what was written before is on its disk. Two queue pairs of one device, in one
// process, which looks whether that is so:
//
//   durable_write [--odp] FILE      makes FILE, on a disk, and removes it
//
// At each completion it asks the kernel how many pages of the range are dirty or being written
// (cachestat, Linux 6.5), and only then reads the range past the page cache: such a read would by
// itself have dirty pages written first. Before some FLUSHes it asks, too, to see that pages are
// dirty then. Exit code 77: this kernel or file system can't tell.

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <uroce/verbs_flush.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace {

constexpr std::uint8_t kPort = 1;
constexpr int kGidIndex = 1;  // the port's IPv4 address
constexpr std::uint32_t kFirstPsn = 1;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kFileBytes = 64 * kPage;
constexpr std::size_t kWriteBytesMax = 5 * kPage;
constexpr int kWrites = 24;
constexpr int kCannotTell = 77;

void check(bool fine, const char* what) {
  if (!fine) {
    std::perror(what);
    std::exit(1);
  }
}

void require(bool possible, const char* what) {
  if (!possible) {
    std::printf("can't tell what is on the disk: %s\n", what);
    std::exit(kCannotTell);
  }
}

// A file of whole pages, mapped, and how much of it is on the disk.
class File {
 public:
  explicit File(const char* path)
      : path_(path), descriptor_(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    check(descriptor_ >= 0 && ftruncate(descriptor_, kFileBytes) == 0, path);
    void* const memory =
        mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    check(memory != MAP_FAILED, "mmap");
    memory_ = static_cast<std::uint8_t*>(memory);
    direct_ = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    require(direct_ >= 0, "the file system has no O_DIRECT");
    *static_cast<volatile std::uint8_t*>(memory_) = 0;
    require(not_on_disk(0, kFileBytes) != 0, "a page that was stored to isn't seen as dirty");
    check(msync(memory_, kFileBytes, MS_SYNC) == 0, "msync");
    require(not_on_disk(0, kFileBytes) == 0, "pages stay dirty after msync");
  }
  ~File() {
    munmap(memory_, kFileBytes);
    close(direct_);
    close(descriptor_);
    unlink(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] std::uint8_t* memory() const { return memory_; }

  // How many pages of the range the disk doesn't have yet.
  [[nodiscard]] std::uint64_t not_on_disk(std::uint64_t offset, std::uint64_t length) const {
    constexpr long kCachestat = 451;  // newer than some C libraries
    const struct { std::uint64_t offset, length; } range{offset, length};
    struct {
      std::uint64_t cached, dirty, being_written, evicted, recently_evicted;
    } pages{};
    require(syscall(kCachestat, descriptor_, &range, &pages, 0) == 0,
            "the kernel has no cachestat");
    return pages.dirty + pages.being_written;
  }

  // Does the disk have these bytes? REQUIRES: offset and length are of whole pages.
  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t length,
                         const std::uint8_t* expected) const {
    alignas(kPage) static std::array<std::uint8_t, kFileBytes> found;
    const ssize_t count = pread(direct_, found.data(), length, static_cast<off_t>(offset));
    check(count == static_cast<ssize_t>(length), "reading past the page cache");
    return std::memcmp(found.data(), expected, length) == 0;
  }

 private:
  const char* path_;
  int descriptor_;
  int direct_ = -1;
  std::uint8_t* memory_ = nullptr;
};

ibv_qp* make_queue_pair(ibv_context* context, ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = cq;
  attr.cap.max_send_wr = 2;
  attr.cap.max_send_sge = 1;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd;
  attr.send_ops_flags = std::uint64_t{IBV_QP_EX_WITH_RDMA_WRITE} | UROCE_QP_EX_WITH_FLUSH;
  ibv_qp* qp = ibv_create_qp_ex(context, &attr);
  check(qp != nullptr, "ibv_create_qp_ex");
  return qp;
}

// As in send_recv.cc. Queue pairs, too, say what a peer may do by them.
void connect(ibv_qp* qp, std::uint32_t partner, const ibv_gid& partner_gid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qp_access_flags = unsigned{IBV_ACCESS_REMOTE_WRITE} | UROCE_ACCESS_FLUSH_PERSISTENT;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  check(ibv_modify_qp(qp, &attr, mask) == 0, "to INIT");

  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = partner;
  attr.rq_psn = kFirstPsn;
  attr.max_dest_rd_atomic = 1;  // FLUSH takes one, as READ does
  attr.min_rnr_timer = 12;      // 0.64 ms
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = partner_gid;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  attr.ah_attr.grh.hop_limit = 1;
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  check(ibv_modify_qp(qp, &attr, mask) == 0, "to RTR");

  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = kFirstPsn;
  attr.max_rd_atomic = 1;
  attr.timeout = 14;  // 67 ms
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;  // without end: disks are slow
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  check(ibv_modify_qp(qp, &attr, mask) == 0, "to RTS");
}

void expect_success(ibv_cq* cq) {
  ibv_wc wc{};
  int count = 0;
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  check(count == 1, "ibv_poll_cq");
  if (wc.status != IBV_WC_SUCCESS) {
    std::fprintf(stderr, "request %d: %s\n", static_cast<int>(wc.wr_id),
                 ibv_wc_status_str(wc.status));
    std::exit(1);
  }
}

// One WRITE of whole or broken pages, and its FLUSH.
struct Write {
  int number = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;

  // Every second one is looked at before it is flushed; others have their FLUSH right behind them.
  [[nodiscard]] bool looks_between() const { return number % 2 == 0; }
  [[nodiscard]] bool flushes_region() const { return number % 3 == 0; }
  [[nodiscard]] std::uint64_t first_page() const { return offset / kPage * kPage; }
  [[nodiscard]] std::uint64_t end_page() const {
    return (offset + length + kPage - 1) / kPage * kPage;
  }
};

Write make_write(int number, std::mt19937& random) {
  Write write{.number = number};
  write.length = static_cast<std::uint32_t>(1 + random() % kWriteBytesMax);
  write.offset = random() % (kFileBytes - write.length);
  return write;
}

// Posts it; returns how many pages of it weren't on the disk before the FLUSH was posted.
std::uint64_t post(const Write& write, ibv_qp_ex* qp, ibv_mr* source, ibv_mr* target,
                   const File& file) {
  const auto remote = reinterpret_cast<std::uint64_t>(target->addr) + write.offset;
  const auto local = reinterpret_cast<std::uint64_t>(source->addr) + write.offset;
  std::uint64_t dirty = 0;
  ibv_wr_start(qp);
  qp->wr_id = static_cast<std::uint64_t>(write.number);
  qp->wr_flags = write.looks_between() ? unsigned{IBV_SEND_SIGNALED} : 0U;
  ibv_wr_rdma_write(qp, target->rkey, remote);
  ibv_wr_set_sge(qp, source->lkey, local, write.length);
  if (write.looks_between()) {
    check(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
    expect_success(qp->qp_base.send_cq);
    dirty = file.not_on_disk(write.offset, write.length);
    ibv_wr_start(qp);
  }
  qp->wr_flags = IBV_SEND_SIGNALED;
  uroce_wr_flush(qp, target->rkey, remote, write.length, UROCE_FLUSH_PERSISTENT,
                 write.flushes_region() ? UROCE_FLUSH_MR : UROCE_FLUSH_RANGE);
  check(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
  return dirty;
}

// Returns how many pages were dirty before their FLUSH. What isn't on the disk ends the program.
std::uint64_t write_all(ibv_qp* qp, ibv_mr* source, ibv_mr* target, const File& file) {
  auto* const bytes = static_cast<std::uint8_t*>(source->addr);
  static std::array<std::uint8_t, kFileBytes> expected;
  std::mt19937 random(1);
  std::uint64_t dirty = 0;
  for (int number = 0; number < kWrites; ++number) {
    const Write write = make_write(number, random);
    std::generate_n(bytes + write.offset, write.length,
                    [&random] { return static_cast<std::uint8_t>(random()); });
    std::memcpy(expected.data() + write.offset, bytes + write.offset, write.length);
    dirty += post(write, ibv_qp_to_qp_ex(qp), source, target, file);
    expect_success(qp->send_cq);
    const std::uint64_t missing = write.flushes_region()
                                      ? file.not_on_disk(0, kFileBytes)
                                      : file.not_on_disk(write.offset, write.length);
    const std::uint64_t first = write.first_page();
    const bool same = file.has(first, write.end_page() - first, expected.data() + first);
    if (missing != 0 || !same) {
      std::fprintf(stderr, "write %d was flushed, but %d pages aren't on the disk, %s\n", number,
                   static_cast<int>(missing), same ? "yet" : "and what is differs");
      std::exit(1);
    }
  }
  return dirty;
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_demand = argc == 3 && std::strcmp(argv[1], "--odp") == 0;
  if (argc != 2 && !on_demand) {
    std::fprintf(stderr, "usage: durable_write [--odp] FILE\n");
    return 2;
  }
  File file(argv[argc - 1]);
  ibv_device** devices = ibv_get_device_list(nullptr);
  check(devices != nullptr && devices[0] != nullptr, "no RDMA device");
  ibv_context* context = ibv_open_device(devices[0]);
  check(context != nullptr, "ibv_open_device");
  ibv_gid gid{};
  check(ibv_query_gid(context, kPort, kGidIndex, &gid) == 0, "ibv_query_gid");
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  check(pd != nullptr && cq != nullptr, "ibv_create_cq");

  static std::array<std::uint8_t, kFileBytes> bytes;
  ibv_mr* source = ibv_reg_mr(pd, bytes.data(), bytes.size(), 0);
  check(source != nullptr, "ibv_reg_mr");
  const int rights =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | int{UROCE_ACCESS_FLUSH_PERSISTENT};
  ibv_mr* target = ibv_reg_mr(pd, file.memory(), kFileBytes,
                              on_demand ? rights | int{IBV_ACCESS_ON_DEMAND} : rights);
  check(target != nullptr, "ibv_reg_mr of the file");
  ibv_qp* writer = make_queue_pair(context, pd, cq);
  ibv_qp* owner = make_queue_pair(context, pd, cq);
  connect(writer, owner->qp_num, gid);
  connect(owner, writer->qp_num, gid);

  const std::uint64_t dirty = write_all(writer, source, target, file);
  std::printf("%d writes, flushed and on the disk; %d pages were dirty before\n", kWrites,
              static_cast<int>(dirty));

  ibv_destroy_qp(owner);
  ibv_destroy_qp(writer);
  ibv_dereg_mr(target);
  ibv_dereg_mr(source);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return dirty != 0 ? 0 : 1;
}
