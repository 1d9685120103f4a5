// Thread domains and parent domains. A parent domain is a protection domain under another pointer,
// with hints: which thread uses its objects, and how to allocate memory for them. The allocators
// are never called, because queues are in the daemon's memory; the manual page leaves that to the
// device.

#include "verbs_shim/objects/newer_verbs.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

constexpr std::uint32_t kAttributesKnown =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
    kDomainAllowsUnprotected;  // meaningless: all of the program's memory is unprotected anyway

Td* of(ibv_td* td) { return reinterpret_cast<Td*>(td); }

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) {
    refuse("ibv_alloc_td", EINVAL, "unsupported attribute");
    return nullptr;
  }
  auto td = make<Td>();
  if (td == nullptr) {
    return nullptr;
  }
  td->base.context = context;
  return &td.release()->base;
}

int dealloc_td(ibv_td* base) {
  Td* td = of(base);
  if (td->users.load(std::memory_order_relaxed) != 0) {
    return refuse("ibv_dealloc_td", EBUSY, "a parent domain still uses the thread domain");
  }
  delete td;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  if (attr->pd == nullptr || of(attr->pd)->domain != nullptr) {
    refuse("ibv_alloc_parent_domain", EINVAL, "a parent domain is made of a protection domain");
    return nullptr;
  }
  if ((attr->comp_mask & ~kAttributesKnown) != 0) {
    refuse("ibv_alloc_parent_domain", EINVAL, "unsupported attribute");
    return nullptr;
  }
  const bool allocators = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocators && (attr->alloc == nullptr || attr->free == nullptr)) {
    refuse("ibv_alloc_parent_domain", EINVAL, "an allocator needs both functions");
    return nullptr;
  }
  auto parent = make<Pd>();
  if (parent == nullptr) {
    return nullptr;
  }
  parent->base.context = context;
  parent->base.handle = attr->pd->handle;
  parent->domain = of(attr->pd);
  parent->domain->users.fetch_add(1, std::memory_order_relaxed);
  if (attr->td != nullptr) {
    parent->thread_domain = of(attr->td);
    parent->thread_domain->users.fetch_add(1, std::memory_order_relaxed);
  }
  return &parent.release()->base;
}

// Regions, windows, address handles and shared receive queues may outlive it, as with mlx5: they
// are in the protection domain.
int dealloc_parent_domain(Pd& parent) {
  if (parent.users.load(std::memory_order_relaxed) != 0) {
    return refuse("ibv_dealloc_pd", EBUSY,
                  "queue pairs or completion queues still use the parent domain");
  }
  parent.domain->users.fetch_sub(1, std::memory_order_relaxed);
  if (parent.thread_domain != nullptr) {
    parent.thread_domain->users.fetch_sub(1, std::memory_order_relaxed);
  }
  delete &parent;
  return 0;
}

}  // namespace uroce::shim
