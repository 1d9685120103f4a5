#include "dataplane/qp/direct/byte_runs.h"

namespace uroce {

bool ByteRuns::set_apart(std::uint32_t length) {
  std::size_t index = count_;
  while (length >= runs_[index - 1].length) {
    length -= runs_[--index].length;
    if (length == 0) {
      return true;
    }
  }
  if (count_ == kMax) {
    return false;
  }
  for (std::size_t i = count_++; i > index; --i) {
    runs_[i] = runs_[i - 1];
  }
  ByteRun& split = runs_[index - 1];
  split.length -= length;
  runs_[index] = {split.start + split.length, length};
  return true;
}

}  // namespace uroce
