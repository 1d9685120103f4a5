// Protection domains.

#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

using namespace uroce::shim;
using abi::Command;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto pd = make<Pd>();
  if (pd == nullptr) {
    return nullptr;
  }
  PlainRequest request{};
  abi::HandleReply reply{};
  const int error = of(context)->client.call("ibv_alloc_pd", Command::kAllocPd, request, reply);
  if (error != 0) {
    return fail(error);
  }
  pd->base.context = context;
  pd->base.handle = reply.handle;
  return &pd.release()->base;
}

int ibv_dealloc_pd(ibv_pd* base) {
  Pd* pd = of(base);
  if (pd->domain != nullptr) {
    return dealloc_parent_domain(*pd);
  }
  if (pd->users.load(std::memory_order_relaxed) != 0) {
    return refuse("ibv_dealloc_pd", EBUSY, "a parent domain still uses the protection domain");
  }
  const int error =
      destroy_handle("ibv_dealloc_pd", base->context, Command::kDeallocPd, base->handle);
  if (error == 0) {
    delete pd;
  }
  return error;
}
}
