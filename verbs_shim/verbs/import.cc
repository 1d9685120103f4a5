// Imports protection domains and memory regions of another context, often of another process. The
// session for that comes from device/import_device.cc.

#include "abi/import_records.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/log.h"

using namespace uroce::shim;
using abi::Command;

extern "C" {

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  auto pd = make<Pd>();
  if (pd == nullptr) {
    return nullptr;
  }
  abi::HandleRequest request{};
  request.handle = handle;
  abi::HandleReply reply{};
  const int error = of(context)->client.call("ibv_import_pd", Command::kImportPd, request, reply);
  if (error != 0) {
    return fail(error);
  }
  pd->base.context = context;
  pd->base.handle = reply.handle;
  return &pd.release()->base;
}

// Objects created in it keep the daemon's end alive until the session ends.
void ibv_unimport_pd(ibv_pd* pd) {
  destroy_handle("ibv_unimport_pd", pd->context, Command::kDeallocPd, pd->handle);
  delete of(pd);
}

// The address isn't known: it is in the exporter's address space. The region stays the exporter's:
// here ibv_dereg_mr does what ibv_unimport_mr does.
ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  auto mr = make<Mr>();
  if (mr == nullptr) {
    return nullptr;
  }
  abi::ImportMrRequest request{};
  request.pd = pd->handle;
  request.handle = handle;
  abi::ImportMrReply reply{};
  const int error =
      of(pd->context)->client.call("ibv_import_mr", Command::kImportMr, request, reply);
  if (error != 0) {
    return fail(error);
  }
  mr->base.context = pd->context;
  mr->base.pd = pd;
  mr->base.handle = handle;
  mr->base.length = reply.length;
  mr->base.lkey = reply.lkey;
  mr->base.rkey = reply.rkey;
  mr->imported = true;
  return &mr.release()->base;
}

void ibv_unimport_mr(ibv_mr* mr) { delete of(mr); }
}
