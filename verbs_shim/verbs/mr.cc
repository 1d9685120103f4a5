// Memory regions and their keys.

#include <cerrno>
#include <utility>

#include "verbs_shim/memory/paging/unseen_changes.h"
#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/mr_records.h"
#include "verbs_shim/verbs/on_demand.h"

namespace uroce::shim {
namespace {

constexpr unsigned kRemoteStores = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kMandatory =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |
    IBV_ACCESS_ON_DEMAND | UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT;

// 0, or the error if these access flags aren't supported. Optional ones never cause an error
// (ibv_reg_mr(3)).
int check_access(unsigned access) {
  const unsigned wanted = access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  if ((wanted & ~kMandatory) != 0) {
    return refuse("ibv_reg_mr", EOPNOTSUPP, "unsupported access flag");
  }
  if ((wanted & kRemoteStores) != 0 && (wanted & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return refuse("ibv_reg_mr", EINVAL, "remote write or atomic access needs local write");
  }
  return 0;
}

unsigned known(unsigned access) {
  return access & (kMandatory | static_cast<unsigned>(IBV_ACCESS_RELAXED_ORDERING));
}

std::uint64_t address_of(const Mr& mr) {
  return mr.mapping.start != nullptr ? mr.mapping.address()
                                     : reinterpret_cast<std::uintptr_t>(mr.base.addr);
}

bool on_demand(const Mr& mr) { return (mr.access & IBV_ACCESS_ON_DEMAND) != 0; }

// Releases what a registration acquired; a fork's child holds nothing for its parent's regions.
void release(const Mr& mr) {
  if (!of(mr.base.context)->client.abandoned()) {
    release_memory(mr.held);
  }
}

// Describes how the daemon accesses the range: nothing for on-demand regions, for which it asks
// later.
OrRefusal<MemoryDescription> describe(const Mr& mr, Charging charging) {
  const std::uint64_t end = address_of(mr) + mr.base.length;
  if (!on_demand(mr)) {
    return describe_memory(address_of(mr), mr.base.length, mr.access, charging);
  }
  if (!is_implicit(mr.base.addr, mr.base.length) &&
      (mr.base.length == 0 || end <= address_of(mr) || end > abi::kPagingAddressEnd)) {
    return Refusal{EINVAL, "the range is empty, or reaches beyond the end of the address space"};
  }
  if (const int error = open_paging(*of(mr.base.context))) {
    return Refusal{error, "on-demand paging isn't available"};
  }
  if (!is_implicit(mr.base.addr, mr.base.length)) {
    announce_unseen(address_of(mr), end);
  }
  return MemoryDescription{};
}

// Makes the pages shared and has the daemon map them. `replaces`: handle + 1 of the region that
// this one replaces; 0: none. 0 or an errno value.
int register_range(Mr& mr, std::uint32_t replaces, Charging charging) {
  if (of(mr.base.context)->client.abandoned()) {
    return refuse("ibv_reg_mr", ENODEV, "the device was opened before the fork, by the parent");
  }
  const CancellationDisabled whole;  // files are opened and read under locks
  auto description = describe(mr, charging);
  if (!description) {
    return refuse("ibv_reg_mr", description.error().code, description.error().message.c_str());
  }
  mr.held = std::move(description->held);
  if (!description->unconverted_reason.empty()) {
    const Sentence sentence =
        Sentence::composed("memory is accessed through /proc/PID/mem, which is slower: %s",
                           description->unconverted_reason.c_str());
    explain("ibv_reg_mr", EOPNOTSUPP, sentence.c_str());
  }
  abi::RegMrReply reply{};
  int error = share_arenas(*of(mr.base.context), *description);
  if (error == 0) {
    const abi::RegMrRequest head{.header = {},
                                 .address = address_of(mr),
                                 .length = mr.base.length,
                                 .iova = mr.iova,
                                 .pd = mr.pd_handle,
                                 .access = mr.access,
                                 .piece_count = 0,
                                 .pieces_in_file = 0,
                                 .replaces = replaces,
                                 .reserved = 0};
    error = send_registration(of(mr.base.context)->client, head, *description, reply);
  }
  if (error != 0) {
    release_memory(mr.held);
    return error;
  }
  if (reply.remote_pieces != 0 && (mr.access & IBV_ACCESS_REMOTE_ATOMIC) != 0) {
    explain("ibv_reg_mr", EOPNOTSUPP,
            "memory is accessed through /proc/PID/mem, so peers' atomics on it are atomic against "
            "each other, "
            "but not against this program's own updates");
  }
  mr.base.handle = reply.handle;
  mr.base.lkey = reply.lkey;
  mr.base.rkey = reply.rkey;
  return 0;
}

// A region of memory at mr.base.addr, or in mr.mapping. nullptr with errno; on success errno is
// unchanged.
ibv_mr* registered(InTheMaking<Mr> mr, ibv_pd* pd, std::size_t length, std::uint64_t iova,
                   unsigned access) {
  const int errno_before = errno;
  mr->base.context = pd->context;
  mr->base.pd = pd;
  mr->pd_handle = pd->handle;
  mr->base.length = length;
  mr->access = known(access);
  mr->iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  const int error = register_range(*mr, 0, Charging::kAnew);
  if (error != 0) {
    unmap_file(mr->mapping);
    return fail(error);
  }
  errno = errno_before;
  return &mr.release()->base;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                         unsigned int access) {
  auto mr = check_access(access) == 0 ? make<Mr>() : nullptr;
  if (mr == nullptr) {
    return nullptr;
  }
  mr->base.addr = address;
  return registered(std::move(mr), pd, length, iova, access);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                          static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return ibv_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int descriptor,
                          int access) {
  const auto rights = static_cast<unsigned>(access);
  if (check_access(rights) != 0) {
    return nullptr;
  }
  if ((rights & IBV_ACCESS_ON_DEMAND) != 0) {
    refuse("ibv_reg_dmabuf_mr", EOPNOTSUPP, "a buffer isn't registered on demand");
    return nullptr;
  }
  auto mapping = map_file(descriptor, offset, length, (rights & IBV_ACCESS_LOCAL_WRITE) != 0);
  if (!mapping) {
    refuse("ibv_reg_dmabuf_mr", mapping.error().code, mapping.error().message.c_str());
    return nullptr;
  }
  auto mr = make<Mr>();
  if (mr == nullptr) {
    unmap_file(*mapping);
    return nullptr;
  }
  mr->base.addr = reinterpret_cast<void*>(offset);  // as libibverbs returns it
  mr->mapping = *mapping;
  return registered(std::move(mr), pd, length, iova, rights);
}

int ibv_dereg_mr(ibv_mr* base) {
  Mr* mr = of(base);
  if (mr->imported) {
    // Its exporter's session has the region, and alone can end it.
    ibv_unimport_mr(base);
    return 0;
  }
  const int error =
      destroy_handle("ibv_dereg_mr", base->context, abi::Command::kDeregMr, base->handle);
  if (error == 0) {
    const int errno_before = errno;
    release(*mr);
    unmap_file(mr->mapping);
    delete mr;
    errno = errno_before;
  }
  return error;
}

// The daemon replaces the old region by the new one under the same keys, or refuses and keeps the
// old one. (Programs mustn't rely on the latter: a card may have destroyed it.)
int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  Mr* mr = of(base);
  const bool translation = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  const bool domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool sound = (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) == 0 && flags != 0 &&
                     (!translation || (address != nullptr && length != 0)) &&
                     (rights || access == 0) && (!domain || pd != nullptr) && !mr->elsewhere &&
                     !mr->imported && mr->mapping.start == nullptr;
  if (!sound) {
    refuse("ibv_rereg_mr", EINVAL, "the flags don't fit the arguments or the region");
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (rights && check_access(static_cast<unsigned>(access)) != 0) {
    return IBV_REREG_MR_ERR_INPUT;
  }
  Mr next{.base = mr->base,
          .pd_handle = mr->pd_handle,
          .access = mr->access,
          .imported = false,
          .iova = 0,
          .elsewhere = false,
          .held = {},
          .mapping = {}};
  std::uint64_t iova = mr->iova;
  if (domain) {
    next.base.pd = pd;
    next.pd_handle = pd->handle;
  }
  if (rights) {
    next.access = known(static_cast<unsigned>(access));
  }
  if (translation) {
    next.base.addr = address;
    next.base.length = length;
    iova = address_of(next);
  }
  if (on_demand(*mr) || on_demand(next)) {
    refuse("ibv_rereg_mr", EOPNOTSUPP, "regions on demand can't be registered anew");
    return IBV_REREG_MR_ERR_INPUT;
  }
  next.iova = (next.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  const int errno_before = errno;
  const int error =
      register_range(next, base->handle + 1, translation ? Charging::kAnew : Charging::kBefore);
  if (error != 0) {
    errno = error;
    return IBV_REREG_MR_ERR_CMD;
  }
  if (!translation) {  // what the region was charged for it stays charged for
    next.held.address = mr->held.address;
    next.held.length = std::exchange(mr->held.length, 0);
  }
  release(*mr);
  *mr = std::move(next);
  errno = errno_before;
  return 0;
}
}
