// A MAD of ours that the network reports as undeliverable.

#include <algorithm>

#include "control/cm/mad_format.h"
#include "control/cm/manager.h"

namespace uroce::control::cm {
namespace {

constexpr std::size_t kTransactionAt = 8;

// A sender off the path doesn't know the transaction id, whose upper half is random.
bool repeats(std::span<const std::byte> beginning, const Mad& mad) {
  return beginning.size() >= kMadHeaderBytes && beginning.size() <= mad.size() &&
         std::equal(beginning.begin(), beginning.end(), mad.begin());
}

ConnectionId connection_of(std::span<const std::byte> mad) {
  ConnectionId id = 0;
  for (const std::byte byte : mad.subspan(kTransactionAt + sizeof(id), sizeof(id))) {
    id = id << 8U | static_cast<ConnectionId>(byte);
  }
  return id;
}

}  // namespace

void Manager::on_undelivered(const Route& route, std::span<const std::byte> beginning, int error,
                             Time now) {
  if (beginning.size() < kMadHeaderBytes) {
    return;
  }
  Connection* connection = connections_.find(connection_of(beginning));
  if (connection == nullptr || !connection->has_last || connection->route.remote != route.remote ||
      !repeats(beginning, connection->last)) {
    return;
  }
  if (connection->state == State::kReqSent || connection->state == State::kSidrReqSent) {
    fail_unanswered(*connection, error, now);
  }
}

}  // namespace uroce::control::cm
