#include "apps/console/objects.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "verbs_shim/objects/handle.h"

namespace uroce::console {

Region::~Region() {
  if (mr != nullptr) {
    ibv_dereg_mr(mr);
  }
  if (bytes != nullptr) {
    ::munmap(bytes, length);
  }
}

Queue::~Queue() {
  if (qp != nullptr) {
    ibv_destroy_qp(qp);
  }
  if (ah != nullptr) {
    ibv_destroy_ah(ah);
  }
  if (srq != nullptr) {
    ibv_destroy_srq(srq);
  }
  if (xrcd != nullptr) {
    ibv_close_xrcd(xrcd);
  }
  for (ibv_cq* cq : {send_cq, recv_cq}) {
    if (cq != nullptr) {
      ibv_destroy_cq(cq);
    }
  }
}

Window::~Window() {
  if (mw != nullptr) {
    ibv_dealloc_mw(mw);
  }
}

Result<std::unique_ptr<Objects>> Objects::open() {
  std::unique_ptr<Objects> objects(new Objects);
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) {
    return Error{ENODEV, "no daemon answers; UROCE_SOCKET names its socket"};
  }
  objects->context_ = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  if (objects->context_ == nullptr) {
    return verb_error("ibv_open_device", errno);
  }
  // Events are asked for, not waited for.
  const int events = objects->context_->async_fd;
  ::fcntl(events, F_SETFL, ::fcntl(events, F_GETFL) | O_NONBLOCK);
  objects->pd_ = ibv_alloc_pd(objects->context_);
  objects->other_pd_ = ibv_alloc_pd(objects->context_);
  if (objects->pd_ == nullptr || objects->other_pd_ == nullptr) {
    return verb_error("ibv_alloc_pd", errno);
  }
  return objects;
}

Objects::~Objects() {
  windows.clear();
  queues.clear();
  regions.clear();
  for (ibv_pd* pd : {pd_, other_pd_}) {
    if (pd != nullptr) {
      ibv_dealloc_pd(pd);
    }
  }
  if (context_ != nullptr) {
    ibv_close_device(context_);
  }
}

Result<Region*> Objects::region(const std::string& name) const {
  const auto found = regions.find(name);
  if (found == regions.end()) {
    return Error{EINVAL, "there is no region `" + name + "`"};
  }
  return found->second.get();
}

Result<Queue*> Objects::queue(const std::string& name) const {
  const auto found = queues.find(name);
  if (found == queues.end()) {
    return Error{EINVAL, "there is no queue pair `" + name + "`"};
  }
  return found->second.get();
}

Status Objects::choose(std::uint32_t qpn, std::uint32_t key) const {
  if (qpn == 0 && key == 0) {
    return ok();
  }
  abi::ChooseNumbersRequest request{.header = {}, .qpn = qpn, .key = key};
  shim::PlainReply reply{};
  const int code = shim::of(context_)->client.call("choose numbers", abi::Command::kChooseNumbers,
                                                   request, reply);
  return code == 0 ? ok() : Status(verb_error("choosing numbers", code));
}

Error verb_error(const char* verb, int code) {
  return {code, std::string(verb) + ": " + std::generic_category().message(code)};
}

}  // namespace uroce::console
