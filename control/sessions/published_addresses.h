#pragma once

// The address handles of a session that workers read. An address that is replaced or withdrawn is
// freed once no worker can hold a pointer to it. Control thread only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/engine/engine.h"
#include "dataplane/qp/address_table.h"
#include "dataplane/wire/path.h"
#include "mmu/region.h"

namespace uroce::control {

class PublishedAddresses {
 public:
  // The engine outlives this.
  explicit PublishedAddresses(Engine& engine) : engine_(engine) {}

  // Makes an address handle, or its new path, visible to workers.
  void publish(std::uint32_t handle, PdId pd, const Path& path);
  void withdraw(std::uint32_t handle);

  // The table that queue pairs use.
  [[nodiscard]] const AddressTable& table() const { return table_; }
  [[nodiscard]] std::size_t retired() const { return retired_.size(); }

 private:
  void put(std::uint32_t handle, std::unique_ptr<const AddressVector> address);
  void retire(std::unique_ptr<const AddressVector> address);

  Engine& engine_;
  AddressTable table_;
  std::vector<std::unique_ptr<const AddressVector>> retired_;  // workers may still use them
};

}  // namespace uroce::control
