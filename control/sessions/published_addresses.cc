#include "control/sessions/published_addresses.h"

#include "control/sessions/objects.h"

namespace uroce::control {
namespace {

// Address vectors that wait for the workers to end their turns before they are freed together.
constexpr std::size_t kRetiredMax = 64;

}  // namespace

void PublishedAddresses::publish(std::uint32_t handle, const AddressHandle& address) {
  retire(table_.put(handle, std::make_unique<AddressVector>(
                                AddressVector{address.pd->id, FrameTemplate(address.path)})));
}

void PublishedAddresses::withdraw(std::uint32_t handle) { retire(table_.put(handle, nullptr)); }

void PublishedAddresses::retire(std::unique_ptr<const AddressVector> address) {
  if (address == nullptr) {
    return;
  }
  retired_.push_back(std::move(address));
  if (retired_.size() < kRetiredMax) {
    return;
  }
  for (std::uint32_t worker = 0; worker < engine_.workers(); ++worker) {
    engine_.call(worker, [](Worker&) {});  // runs between two turns: nothing looked up is held
  }
  retired_.clear();
}

}  // namespace uroce::control
