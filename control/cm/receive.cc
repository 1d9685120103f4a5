// A received MAD: which message it is, and which connection it names.

#include "control/cm/manager.h"

namespace uroce::control::cm {

// The sender's address must be the peer's: numbers alone could be guessed by others on the network.
// A peer that has no number yet sends 0.
Connection* Manager::named(const Route& route, std::uint32_t id, std::uint32_t remote_id) {
  Connection* connection = connections_.find(id);
  const bool right =
      connection != nullptr && connection->route.remote == route.remote &&
      (connection->remote_id == 0 || remote_id == 0 || connection->remote_id == remote_id);
  if (!right) {
    ++counters_.dropped_unknown;
    return nullptr;
  }
  return connection;
}

void Manager::on_mad(const Route& route, std::span<const std::byte> bytes, Time now) {
  MadFault fault{};
  auto envelope = parse_mad(bytes, &fault);
  if (!envelope) {
    count(fault);
    return;
  }
  ++counters_.received;
  const std::uint64_t transaction = envelope->transaction;
  Message& message = envelope->message;
  if (auto* req = std::get_if<Req>(&message)) {
    on_req(route, transaction, std::move(*req), now);
  } else if (auto* rep = std::get_if<Rep>(&message)) {
    on_rep(route, transaction, std::move(*rep), now);
  } else if (auto* rtu = std::get_if<Rtu>(&message)) {
    on_rtu(route, std::move(*rtu), now);
  } else if (auto* mra = std::get_if<Mra>(&message)) {
    on_mra(route, *mra, now);
  } else if (auto* rej = std::get_if<Rej>(&message)) {
    on_rej(route, std::move(*rej), now);
  } else if (auto* dreq = std::get_if<Dreq>(&message)) {
    on_dreq(route, transaction, std::move(*dreq), now);
  } else if (auto* drep = std::get_if<Drep>(&message)) {
    on_drep(route, std::move(*drep), now);
  } else if (auto* lap = std::get_if<Lap>(&message)) {
    on_lap(route, transaction, *lap);
  } else if (auto* sidr_req = std::get_if<SidrReq>(&message)) {
    on_sidr_req(route, transaction, std::move(*sidr_req), now);
  } else if (auto* sidr_rep = std::get_if<SidrRep>(&message)) {
    on_sidr_rep(route, std::move(*sidr_rep), now);
  } else {
    ++counters_.dropped_state;  // an APR: we never send a LAP
  }
}

void Manager::count(MadFault fault) {
  switch (fault) {
    case MadFault::kNone:
      return;
    case MadFault::kLength:
      ++counters_.dropped_length;
      return;
    case MadFault::kHeader:
      ++counters_.dropped_header;
      return;
    case MadFault::kAttribute:
      ++counters_.dropped_attribute;
      return;
    case MadFault::kField:
      ++counters_.dropped_field;
      return;
  }
}

// There is no alternate path to load: RoCE has no path migration (annex A17).
void Manager::on_lap(const Route& route, std::uint64_t transaction, const Lap& lap) {
  const Connection* connection = named(route, lap.remote_id, lap.local_id);
  send(route, transaction,
       Apr{.local_id = lap.remote_id,
           .remote_id = lap.local_id,
           .status = connection == nullptr ? kAprInvalidId : kAprUnsupported});
}

}  // namespace uroce::control::cm
