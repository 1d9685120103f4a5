#pragma once

// Which packets a queue pair sends and takes, by its type (IBTA vol. 1, 9.2.1).

#include <cstdint>

#include "dataplane/qp/attributes.h"
#include "dataplane/wire/opcode.h"

namespace uroce {

constexpr Transport transport_of(QpType type) {
  switch (type) {
    case QpType::kUc:
      return Transport::kUc;
    case QpType::kUd:
      return Transport::kUd;
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
      return Transport::kXrc;
    default:
      return Transport::kRc;
  }
}

// UC and XRC have RC's operations, each in a space of its own. REQUIRES: `reliable` is one of RC's
// opcodes, and the type isn't UD.
constexpr Opcode opcode_for(QpType type, Opcode reliable) {
  constexpr unsigned kTransportShift = 5;
  return static_cast<Opcode>(static_cast<unsigned>(transport_of(type)) << kTransportShift |
                             static_cast<unsigned>(reliable));
}
static_assert(opcode_for(QpType::kUc, Opcode::kRcWriteOnly) == Opcode::kUcWriteOnly);
static_assert(opcode_for(QpType::kXrcSend, Opcode::kRcFetchAdd) == Opcode::kXrcFetchAdd);

}  // namespace uroce
