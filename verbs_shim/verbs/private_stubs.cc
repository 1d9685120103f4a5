// What libmlx5 and libefa import from libibverbs besides the verbs. They are linked by perftest,
// UCX and libfabric, so the names have to be there; but they serve devices of their own, which this
// library never lists, so nothing calls them, save the registration in their constructors.
//
// This file knows no verbs header: the stubs' signatures are nobody's.

#include <cerrno>

#define PRIVATE_STUB(name)                                           \
  extern "C" __attribute__((visibility("default"))) int name(void) { \
    errno = EOPNOTSUPP;                                              \
    return EOPNOTSUPP;                                               \
  }
#include "verbs_shim/verbs/private_stubs.def"
#undef PRIVATE_STUB

// Takes a provider's table, and forgets it.
extern "C" __attribute__((visibility("default"))) void verbs_register_driver_34(const void*) {}

extern "C" {
extern __attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = false;
}
