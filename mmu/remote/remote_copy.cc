#include "mmu/remote/remote_copy.h"

namespace uroce {

void SlowSlot::take(std::unique_ptr<RemoteCopy> copy) {
  if (copy->kind == RemoteCopy::Kind::kRead) {
    --reading;
    if (reads.size() == kReadsMax) {
      reads.erase(reads.begin());
    }
    reads.push_back(std::move(copy));
    return;
  }
  --storing;
  if (copy->kind != RemoteCopy::Kind::kWrite) {
    atomic = std::move(copy);
    return;
  }
  if (outcome == Access::kGranted) {
    outcome = copy->outcome;
  }
  ended = ending && storing == 0;
  ending = ending && !ended;
}

}  // namespace uroce
