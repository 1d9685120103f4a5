// Opening a port on an ethdev, at once or when its peer has connected, and closing it.

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "base/start_thread.h"
#include "dataplane/port/ethdev/eal.h"
#include "dataplane/port/ethdev/ethdev_port.h"
#include "dataplane/port/ethdev/open_descriptors.h"
#include "dataplane/port/ethdev/port_rights.h"
#include "dataplane/port/ethdev/vdev_spec.h"

namespace uroce {
namespace {

constexpr std::chrono::milliseconds kLook{5};
constexpr std::chrono::milliseconds kRetry{200};
// Descriptors of each queue of a device that isn't there yet; the same number as in
// ethdev_setup.cc.
constexpr std::uint16_t kDescriptorsExpected = 1'024;

bool is_socket(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode);
}

// Connects to the socket and disconnects, non-blocking. False, with errno, if it was refused.
bool knock(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool connected =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int code = errno;
  close(probe);
  errno = code;
  return connected;
}

// Removes a socket without a listener: a killed daemon leaves its socket behind, and the driver
// then can't create it again.
void remove_stale_socket(const std::string& path) {
  if (is_socket(path) && !knock(path) && errno == ECONNREFUSED) {
    unlink(path.c_str());
  }
}

}  // namespace

EthdevPort::EthdevPort(std::string spec, const PortOptions& options)
    : spec_(std::move(spec)), options_(options), id_(RTE_MAX_ETHPORTS) {
  for (std::uint16_t i = 0; i < options_.queues; ++i) {
    queues_.push_back(std::make_unique<Queue>());
  }
}

EthdevPort::~EthdevPort() {
  abandon_peer();
  for (auto& queue : queues_) {
    release(queue->early.data(), queue->early_count);
  }
  if (started_) {
    rte_eth_dev_stop(id_);
  }
  if (id_ != RTE_MAX_ETHPORTS) {
    rte_eth_dev_close(id_);
  }
}

Error EthdevPort::error(int code, const std::string& what) const {
  // -1 isn't EPERM, but what drivers return for want of an error.
  const int positive = code == 0 || code == -1 ? EIO : std::abs(code);
  return Error{positive, "port " + spec_ + ": " + what + " (" + rte_strerror(positive) + ")"};
}

// Without the rights that it takes it can't be opened, whatever else its lines say.
Error EthdevPort::refused(int code, const std::string& what) const {
  // (Of cards pci_device_trouble() says it.)
  const std::string rights = is_pci_address(spec_) ? "" : missing_rights(spec_);
  return error(rights.empty() ? code : EPERM, what + "; see its lines above" + rights);
}

Result<std::unique_ptr<Port>> EthdevPort::open(const std::string& spec,
                                               const PortOptions& options) {
  UROCE_CHECK(eal_is_running());
  std::unique_ptr<EthdevPort> port(new EthdevPort(spec, options));
  const VdevSpec vdev = is_pci_address(spec) ? card_spec(spec, options.mtu)
                                             : complete_vdev(spec, options.mtu, options.queues);
  if (vdev.buffer_bytes_max != 0 && vdev.buffer_bytes > vdev.buffer_bytes_max) {
    return port->error(EMSGSIZE, "this driver carries an MTU of at most " +
                                     std::to_string(vdev.buffer_bytes_max - kEthernetOverhead) +
                                     "; choose a smaller --mtu");
  }
  if (!vdev.listens_on.empty()) {
    remove_stale_socket(vdev.listens_on);
  }
  port->vdev_ = vdev;
  const Status done = vdev.waits_for_peer ? port->bring_up_with_peer(vdev) : port->bring_up(vdev);
  if (!done) {
    return done.error();
  }
  return std::unique_ptr<Port>(std::move(port));
}

Status EthdevPort::bring_up(const VdevSpec& vdev) {
  const std::vector<int> known = open_descriptors();
  if (Status done = probe(vdev); !done) {
    return done;
  }
  if (Status done = configure(vdev); !done) {
    return done;
  }
  if (Status done = start(); !done) {
    return done;
  }
  find_wait_descriptors(known);
  note_interface();
  if (Status done = enable_all_multicast(); !done) {
    return done;
  }
  up_.store(true, std::memory_order_release);
  return ok();
}

// Returns when the device runs, when it has failed, or when its socket waits for the peer.
Status EthdevPort::bring_up_with_peer(const VdevSpec& vdev) {
  rx_queues_ = tx_queues_ = options_.queues;
  listens_on_ = vdev.listens_on;
  if (!mac_.has_value()) {
    mac_ = parse_mac(vdev_argument(vdev.arguments, "mac"));
  }
  if (Status made = make_pool(vdev.buffer_bytes, kDescriptorsExpected, kDescriptorsExpected);
      !made) {
    return made;
  }
  std::future<Status> first = first_try_.get_future();
  auto started = start_thread("port " + spec_, [this, vdev] { keep_trying(vdev); });
  if (!started) {
    return started.error();
  }
  waiting_ = std::move(*started);
  while (first.wait_for(kLook) != std::future_status::ready) {
    if (is_socket(listens_on_)) {
      return ok();
    }
  }
  return first.get();
}

// A peer may die during the first exchange: then waits for the next one. A device that fails before
// it listens won't recover.
void EthdevPort::keep_trying(const VdevSpec& vdev) {
  Status done = bring_up(vdev);
  first_try_.set_value(done);
  while (!done && !abandoned_.load() && is_socket(listens_on_)) {
    std::this_thread::sleep_for(kRetry);
    remove_stale_socket(listens_on_);
    done = bring_up(vdev);
  }
  trying_.store(false);
}

// The driver blocks in accept(): connecting makes it continue, and fail. It then leaves its socket
// behind.
void EthdevPort::abandon_peer() {
  if (!waiting_.joinable()) {
    return;
  }
  abandoned_.store(true);
  while (trying_.load()) {
    knock(listens_on_);
    std::this_thread::sleep_for(kLook);
  }
  waiting_.join();
  if (!up_.load() && is_socket(listens_on_)) {
    unlink(listens_on_.c_str());
  }
}

}  // namespace uroce
