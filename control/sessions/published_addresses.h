#pragma once

// The address handles of a session as workers see them. An address that is replaced or withdrawn is
// freed when no worker can look at it any more. Control thread only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/engine/engine.h"
#include "dataplane/qp/address_table.h"

namespace uroce::control {

struct AddressHandle;

class PublishedAddresses {
 public:
  // The engine outlives this.
  explicit PublishedAddresses(Engine& engine) : engine_(engine) {}

  // Lets workers see an address handle, or its new path.
  void publish(std::uint32_t handle, const AddressHandle& address);
  void withdraw(std::uint32_t handle);

  // For queue pairs.
  [[nodiscard]] const AddressTable& table() const { return table_; }
  [[nodiscard]] std::size_t retired() const { return retired_.size(); }

 private:
  void put(std::uint32_t handle, std::unique_ptr<const AddressVector> address);
  void retire(std::unique_ptr<const AddressVector> address);

  Engine& engine_;
  AddressTable table_;
  std::vector<std::unique_ptr<const AddressVector>> retired_;  // workers may look at them
};

}  // namespace uroce::control
