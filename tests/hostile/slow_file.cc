#include "tests/hostile/slow_file.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRequestMax = 1U << 20U;

void write_file(const char* path, const std::string& text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    give_up(std::string("can't write ") + path);
  }
}

// In the working folder, which the test removes.
const char* const kName = "slow-file";

// In this namespace the user may mount.
void enter_namespaces() {
  const std::string uid = std::to_string(::getuid()), gid = std::to_string(::getgid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    give_up("this machine gives users no namespaces");
  }
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", "0 " + uid + " 1");
  write_file("/proc/self/gid_map", "0 " + gid + " 1");
}

// After setuid() the kernel makes the process undumpable, unless it is told otherwise.
void become(uid_t user) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
      ::setresuid(user, user, user) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0 ||
      ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    give_up("can't become another user");
  }
}

fuse_attr attributes() {
  fuse_attr attr{};
  attr.ino = FUSE_ROOT_ID;
  attr.size = kPage;
  attr.mode = S_IFREG | 0666;
  attr.nlink = 1;
  attr.blksize = kPage;
  return attr;
}

}  // namespace

SlowFile::SlowFile(std::set<std::uint32_t> silent) : silent_(std::move(silent)) {
  enter_namespaces();
  mount("user_id=0,group_id=0");
  start_serving();
}

SlowFile::SlowFile(std::set<std::uint32_t> silent, uid_t user) : silent_(std::move(silent)) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    give_up("can't have a mount namespace");
  }
  const std::string id = std::to_string(user);
  mount("user_id=" + id + ",group_id=" + id);
  become(user);
  start_serving();
}

void SlowFile::mount(const std::string& options) {
  device_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  ::close(::open(kName, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const std::string all = "fd=" + std::to_string(device_.get()) + ",rootmode=100666," + options;
  if (::mount("slow", kName, "fuse", MS_NOSUID | MS_NODEV, all.c_str()) != 0) {
    give_up("can't mount a FUSE file system");
  }
}

// A process that is to be killed with this one must belong to the same user.
void SlowFile::start_serving() {
  const pid_t child = ::fork();
  if (child < 0) {
    give_up("can't fork");
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve();
  }
  device_.reset();
}

UniqueFd SlowFile::open() const {
  UniqueFd file(::open(kName, O_RDWR | O_CLOEXEC));
  if (!file.valid()) {
    give_up("can't open the slow file");
  }
  return file;
}

void* SlowFile::map() const {
  const UniqueFd file = open();
  struct stat status {};
  (void)::fstat(file.get(), &status);  // the kernel learns the root's size only by asking for it
  void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  if (page == MAP_FAILED) {
    give_up("can't map the slow file");
  }
  return page;
}

void SlowFile::serve() const {
  std::vector<std::byte> request(kRequestMax);
  for (;;) {
    const ssize_t length = ::read(device_.get(), request.data(), request.size());
    if (length < static_cast<ssize_t>(sizeof(fuse_in_header))) {
      ::_exit(0);
    }
    fuse_in_header header;
    std::memcpy(&header, request.data(), sizeof(header));
    if (silent_.count(header.opcode) == 0) {
      answer(header.opcode, header.unique);
    }
  }
}

void SlowFile::answer(std::uint32_t operation, std::uint64_t unique) const {
  std::array<std::byte, sizeof(fuse_out_header) + kPage> bytes{};
  std::size_t length = sizeof(fuse_out_header);
  const auto add = [&](const auto& body) {
    std::memcpy(bytes.data() + length, &body, sizeof(body));
    length += sizeof(body);
  };
  int error = 0;
  switch (operation) {
    case FUSE_INIT: {
      fuse_init_out body{};
      body.major = FUSE_KERNEL_VERSION;
      body.minor = FUSE_KERNEL_MINOR_VERSION;
      body.max_write = kPage;
      add(body);
      break;
    }
    case FUSE_GETATTR:
      add(fuse_attr_out{.attr_valid = 0, .attr_valid_nsec = 0, .dummy = 0, .attr = attributes()});
      break;
    case FUSE_OPEN:
      add(fuse_open_out{});
      break;
    case FUSE_READ:
      length += kPage;
      break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
      break;
    default:
      error = -ENOSYS;
      break;
  }
  const fuse_out_header header{
      .len = static_cast<std::uint32_t>(length), .error = error, .unique = unique};
  std::memcpy(bytes.data(), &header, sizeof(header));
  (void)!::write(device_.get(), bytes.data(), length);
}

}  // namespace uroce::hostile
