#pragma once

// The verbs of on-demand paging, implemented by verbs_shim/memory.

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Opens the two channels for the context's pages, if they aren't open yet. 0 or an errno value.
int open_paging(Context& context);

// Whether the range is all memory (implicit on-demand paging).
bool is_implicit(const void* address, std::size_t length);

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sg_list,
              uint32_t num_sge);

}  // namespace uroce::shim
