// Unsupported functions have a symbol, too: a program, or a library that it links, doesn't start if
// one symbol is missing. The stubs are generated from symbols.table. Private symbols are needed to
// load libmlx5, libefa and others (perftest, UCX and libfabric link them); they serve those
// libraries' devices, which this library never lists, so they aren't called, except for the
// registration in their constructors.
//
// This file is part of the shared object only: symbol versions need the linker's version script.

#include <cerrno>

#include "verbs_shim/objects/newer_verbs.h"
#include "verbs_shim/socket/log.h"

// These aren't called, or only with structures unknown to us: the arguments aren't read.
#define STUB(type, alias, body)                                       \
  extern "C" __attribute__((visibility("default"))) type alias(void); \
  extern "C" type alias(void) { body }

#define SILENT_ERRNO(alias) STUB(int, alias, errno = EOPNOTSUPP; return EOPNOTSUPP;)
#define SILENT_MINUS_ONE(alias) STUB(int, alias, errno = EOPNOTSUPP; return -1;)
#define SILENT_NULL(alias) STUB(void*, alias, errno = EOPNOTSUPP; return nullptr;)

#define REFUSED_ERRNO(alias, name, why) \
  STUB(int, alias, return uroce::shim::refuse(name, EOPNOTSUPP, why);)
#define REFUSED_MINUS_ONE(alias, name, why) \
  STUB(int, alias, uroce::shim::refuse(name, EOPNOTSUPP, why); return -1;)
#define REFUSED_NULL(alias, name, why) \
  STUB(void*, alias, uroce::shim::refuse(name, EOPNOTSUPP, why); return nullptr;)

// An alias is local to the object; the versioned name is exported.
#define VERSION(alias, versioned) __asm__(".symver " #alias ", " versioned);

#pragma GCC visibility push(default)
extern "C" {
// Accepts a provider's table, and ignores it.
void real_verbs_register_driver(const void* /*table*/) {}

extern bool real_verbs_allow_disassociate_destroy;
bool real_verbs_allow_disassociate_destroy = false;

int real_ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index, unsigned* type) {
  return uroce::shim::query_gid_type(context, port, index, type);
}

const char* real_ibv_wr_opcode_str(int opcode) { return uroce::shim::wr_opcode_str(opcode); }
}
#pragma GCC visibility pop

#include "verbs_shim/symbols/versioned_stubs.inc"
