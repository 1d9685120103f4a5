#pragma once

// The empty frames that a worker has in stock of a port. They are taken last in, first out, so some
// would lie there for as long as little is sent: what is of a connection that has ended goes back.

#include <algorithm>
#include <cstdint>

#include "dataplane/port/port.h"
#include "dataplane/qp/tx_batch.h"

namespace uroce {

// Up to `burst` frames, if the port has them. `generation`: Port::generation() of those in stock.
inline void refill_tx(TxBatch& tx, Port& port, std::uint32_t burst, std::uint32_t* generation) {
  if (const std::uint32_t present = port.generation(); present != *generation) [[unlikely]] {
    *generation = present;
    port.release(tx.free_frames(), tx.room());
    tx.no_free_frames();
  }
  tx.added(port.allocate(tx.free_tail(), std::min(burst - tx.room(), tx.wanted())));
}

}  // namespace uroce
