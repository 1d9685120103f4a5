// Device memory: memory of the daemon, which this process maps for ibv_memcpy_to_dm and the like.
// Also the null region, which has no memory.

#include <cstring>
#include <limits>

#include "abi/device_records.h"
#include "abi/import_records.h"
#include "abi/memory_records.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kCopyAlignment = 4;  // as on cards, whose drivers check it
constexpr unsigned kDmAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                               IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                               UROCE_ACCESS_FLUSH_GLOBAL;

struct Dm {
  ibv_dm base;
  Mapping memory;
  std::uint64_t length;
  Client session;  // in the child of a fork
};

Dm* of(ibv_dm* dm) { return reinterpret_cast<Dm*>(dm); }

// The bytes to copy from or to, or nullptr with errno EINVAL.
std::byte* copied_range(const char* call, Dm& dm, std::uint64_t offset, std::size_t length) {
  const bool aligned = offset % kCopyAlignment == 0 && length % kCopyAlignment == 0;
  if (!aligned || offset > dm.length || length > dm.length - offset) {
    refuse(call, EINVAL, "the range isn't inside, or no multiple of 4 bytes");
    return nullptr;
  }
  return dm.memory.at<std::byte>(offset, length);
}

int memcpy_to_dm(ibv_dm* base, uint64_t offset, const void* source, size_t length) {
  std::byte* destination = copied_range("ibv_memcpy_to_dm", *of(base), offset, length);
  if (destination == nullptr) {
    return EINVAL;
  }
  std::memcpy(destination, source, length);
  return 0;
}

int memcpy_from_dm(void* destination, ibv_dm* base, uint64_t offset, size_t length) {
  const std::byte* source = copied_range("ibv_memcpy_from_dm", *of(base), offset, length);
  if (source == nullptr) {
    return EINVAL;
  }
  std::memcpy(destination, source, length);
  return 0;
}

// After a fork the session belongs to the parent. Device memory needs no other object of it, so the
// child gets a separate session for as long as it has the memory. nullptr with errno.
Client* session_of(Dm& dm, ibv_context* context) {
  Client& client = uroce::shim::of(context)->client;
  if (!client.abandoned()) {
    return &client;
  }
  const DoneOrRefusal connected = dm.session.connect();
  int error = connected ? 0 : connected.error().code;
  if (error == 0) {
    abi::OpenDeviceRequest request{};
    request.device = uroce::shim::of(context->device)->record.index;
    abi::OpenDeviceReply reply{};
    error = dm.session.call("ibv_alloc_dm", abi::Command::kOpenDevice, request, reply);
  }
  errno = error;
  return error == 0 ? &dm.session : nullptr;
}

// Maps the memory passed by the daemon. 0, or an errno value; then the memory has been freed in the
// daemon.
int take_over(Dm& dm, ibv_context* context, std::uint32_t handle, std::uint64_t length,
              const Descriptors& received) {
  const int error = dm.memory.map(received.peek(0), length, PROT_READ | PROT_WRITE);
  if (error != 0) {
    destroy_handle("ibv_alloc_dm", context, abi::Command::kFreeDm, handle);
    return error;
  }
  dm.base.context = context;
  dm.base.memcpy_to_dm = memcpy_to_dm;
  dm.base.memcpy_from_dm = memcpy_from_dm;
  dm.base.handle = handle;
  dm.base.comp_mask = IBV_DM_MASK_HANDLE;
  dm.length = length;
  return 0;
}

int allocate(Dm& dm, ibv_context* context, const ibv_alloc_dm_attr& attr) {
  Client* client = session_of(dm, context);
  if (client == nullptr) {
    return errno;
  }
  abi::AllocDmRequest request{};
  request.length = attr.length;
  request.log_align = attr.log_align_req;
  abi::HandleReply reply{};
  Descriptors received;
  int error = client->call("ibv_alloc_dm", abi::Command::kAllocDm, request, reply, &received);
  if (error != 0) {
    return error;
  }
  return take_over(dm, context, reply.handle, attr.length, received);
}

// A region that the daemon creates itself. nullptr with errno.
template <typename Request>
ibv_mr* make_region(const char* call_name, abi::Command command, ibv_pd* pd, Request& request,
                    std::size_t length, unsigned access) {
  auto mr = make<Mr>();
  if (mr == nullptr) {
    return nullptr;
  }
  abi::RegMrReply reply{};
  const int error = uroce::shim::of(pd->context)->client.call(call_name, command, request, reply);
  if (error != 0) {
    return fail(error);
  }
  mr->base = {.context = pd->context,
              .pd = pd,
              .addr = nullptr,
              .length = length,
              .handle = reply.handle,
              .lkey = reply.lkey,
              .rkey = reply.rkey};
  mr->access = access;
  mr->elsewhere = true;
  return &mr.release()->base;
}

}  // namespace

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  const CancellationDisabled whole;
  if (attr->comp_mask != 0) {
    refuse("ibv_alloc_dm", EINVAL, "unsupported attribute");
    return nullptr;
  }
  auto dm = make<Dm>();
  if (dm == nullptr) {
    return nullptr;
  }
  const int error = allocate(*dm, context, *attr);
  if (error != 0) {
    return fail(error);
  }
  return &dm.release()->base;
}

int free_dm(ibv_dm* dm) {
  const int error = of(dm)->session.alive() ? 0  // it is freed with its session
                                            : destroy_handle("ibv_free_dm", dm->context,
                                                             abi::Command::kFreeDm, dm->handle);
  if (error == 0) {
    delete of(dm);
  }
  return error;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access) {
  const unsigned wanted = access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  if ((wanted & ~kDmAccess) != 0) {
    refuse("ibv_reg_dm_mr", EOPNOTSUPP, "access flag that isn't supported for device memory");
    return nullptr;
  }
  abi::RegDmMrRequest request{};
  request.offset = offset;
  request.length = length;
  request.pd = pd->handle;
  request.dm = dm->handle;
  request.access = wanted;
  return make_region("ibv_reg_dm_mr", abi::Command::kRegDmMr, pd, request, length, wanted);
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  abi::AllocNullMrRequest request{};
  request.pd = pd->handle;
  return make_region("ibv_alloc_null_mr", abi::Command::kAllocNullMr, pd, request,
                     std::numeric_limits<std::size_t>::max(), IBV_ACCESS_LOCAL_WRITE);
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  const CancellationDisabled whole;
  auto dm = make<Dm>();
  if (dm == nullptr) {
    return nullptr;
  }
  abi::HandleRequest request{};
  request.handle = handle;
  abi::ImportDmReply reply{};
  Descriptors received;
  int error = uroce::shim::of(context)->client.call("ibv_import_dm", abi::Command::kImportDm,
                                                    request, reply, &received);
  if (error == 0) {
    error = take_over(*dm, context, reply.handle, reply.length, received);
  }
  if (error != 0) {
    return fail(error);
  }
  return &dm.release()->base;
}

void ibv_unimport_dm(ibv_dm* dm) { free_dm(dm); }
}
