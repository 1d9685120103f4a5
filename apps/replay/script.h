#pragma once

// A plan written by a person, in the console's own syntax (apps/console): cards with regions, queue
// pairs and receives.
//
//   card   mac=MAC ip=IP [ip=IP ...] [vlan=N]     from here on; without it there is one, see below
//   region NAME key=K iova=X length=N [access=...] [seed=S] [other_pd]
//   fill   REGION+OFFSET:LENGTH seed=S | hex=BYTES
//   qp     NAME peer=IP qpn=N [type=RC|UC|UD] [peer_qpn=N] [psn=N] [mtu=BYTES] [rd_atomic=N]
//   [rnr=CODE]
//          [qkey=N] [access=read+write+atomic] [state=RTS]
//   recv   QP WR [to=REGION+OFFSET:LENGTH ...]
//
// And questions, answered as the console would when all frames have come:
//
//   memory REGION+OFFSET:LENGTH [seed=S] [skip=N]     show QP     poll QP recv     event counters

#include <string>

#include "apps/replay/plan.h"

namespace uroce::replay {

// `addresses`: the card's; none: all that are asked something in the capture. The paths of queue
// pairs are those of the flows with their numbers. EINVAL: what is wrong, and in which line.
[[nodiscard]] Result<Plan> read_script(const std::string& text, const std::vector<Flow>& flows,
                                       const std::vector<Gid>& addresses);

}  // namespace uroce::replay
