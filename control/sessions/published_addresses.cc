#include "control/sessions/published_addresses.h"

#include <algorithm>
#include <utility>

namespace uroce::control {
namespace {

// Address vectors that are freed together once the workers have ended their turns.
constexpr std::size_t kRetiredMax = 64;

}  // namespace

void PublishedAddresses::publish(std::uint32_t handle, PdId pd, const Path& path) {
  put(handle, std::make_unique<AddressVector>(AddressVector{pd, FrameTemplate(path)}));
}

void PublishedAddresses::withdraw(std::uint32_t handle) { put(handle, nullptr); }

// Space for the old one is reserved before workers lose access to it.
void PublishedAddresses::put(std::uint32_t handle, std::unique_ptr<const AddressVector> address) {
  if (retired_.size() == retired_.capacity()) {
    retired_.reserve(std::max(kRetiredMax, 2 * retired_.size()));
  }
  retire(table_.put(handle, std::move(address)));
}

void PublishedAddresses::retire(std::unique_ptr<const AddressVector> address) {
  if (address == nullptr) {
    return;
  }
  retired_.push_back(std::move(address));
  if (retired_.size() < kRetiredMax) {
    return;
  }
  for (std::uint32_t worker = 0; worker < engine_.workers(); ++worker) {
    engine_.call(worker, [](Worker&) {});  // runs between two turns: no looked-up pointer is held
  }
  retired_.clear();
}

}  // namespace uroce::control
