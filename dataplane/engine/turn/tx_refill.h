#pragma once

// A worker's stock of empty frames of a port. They are used last in, first out, so some would stay
// in the stock as long as little is sent; frames of a connection that has ended (see
// Port::generation()) are given back first.

#include <algorithm>
#include <cstdint>

#include "dataplane/port/port.h"
#include "dataplane/qp/tx_batch.h"

namespace uroce {

// Refills `tx` up to `burst` frames, if the port has them. `generation`: Port::generation() of
// those in stock.
inline void refill_tx(TxBatch& tx, Port& port, std::uint32_t burst, std::uint32_t* generation) {
  if (const std::uint32_t present = port.generation(); present != *generation) [[unlikely]] {
    *generation = present;
    port.release(tx.free_frames(), tx.room());
    tx.no_free_frames();
  }
  tx.added(port.allocate(tx.free_tail(), std::min(burst - tx.room(), tx.wanted())));
}

}  // namespace uroce
