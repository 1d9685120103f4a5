#include "mmu/proc_mem/proc_mem_copy.h"

namespace uroce {

void ProcMemSlot::take(std::unique_ptr<ProcMemCopy> copy) {
  if (copy->kind == ProcMemCopy::Kind::kRead) {
    --reading;
    if (reads.size() == kReadsMax) {
      reads.erase(reads.begin());
    }
    reads.push_back(std::move(copy));
    return;
  }
  --storing;
  if (copy->kind != ProcMemCopy::Kind::kWrite) {
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
