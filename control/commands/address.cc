// Commands about addresses: handles, the Ethernet address of a GID, and the port's own.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/address_records.h"
#include "control/commands/address_changes.h"
#include "control/commands/command_table.h"
#include "control/ip/path_resolution.h"

namespace uroce::control {
namespace {

// Address vectors that wait for the workers to end their turns before they are freed together.
constexpr std::size_t kRetiredMax = 64;

void retire(Session& session, std::unique_ptr<const AddressVector> address) {
  if (address == nullptr) {
    return;
  }
  session.retired_addresses.push_back(std::move(address));
  if (session.retired_addresses.size() < kRetiredMax) {
    return;
  }
  Engine& engine = session.card().engine();
  for (std::uint32_t worker = 0; worker < engine.workers(); ++worker) {
    engine.call(worker, [](Worker&) {});  // runs between two turns: nothing looked up is held
  }
  session.retired_addresses.clear();
}

}  // namespace

void publish_ah(Session& session, std::uint32_t handle, const AddressHandle& ah) {
  retire(session, session.addresses.put(handle, std::make_unique<AddressVector>(AddressVector{
                                                    ah.pd->id, FrameTemplate(ah.path)})));
}

Result<Outcome> create_ah(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::CreateAhRequest>();
  Card& card = session.card();
  ProtectionDomain* pd = session.pds.find(body.pd);
  if (pd == nullptr) {
    return no_such("protection domain", body.pd);
  }
  if (card.totals.address_handles >= kAddressHandlesMax) {
    return Error{ENOMEM,
                 "all " + std::to_string(kAddressHandlesMax) + " address handles are taken"};
  }
  if (Status status = check_address(*session.device(), body.address); !status) {
    return status.error();
  }
  const auto path = make_path(*session.device(), body.address, 0, 0, card.clock());
  if (!path) {
    return path.error();
  }
  if (!*path) {
    return Outcome::kWait;
  }
  ++pd->users;
  ++card.totals.address_handles;
  const AddressHandle ah{pd, **path};
  const std::uint32_t handle = session.address_handles.add(std::make_unique<AddressHandle>(ah));
  publish_ah(session, handle, ah);
  reply->set_handle(handle);
  return Outcome::kReply;
}

Result<Outcome> destroy_ah(Session& session, Request& request, Reply* /*reply*/) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  if (session.address_handles.find(handle) == nullptr) {
    return no_such("address handle", handle);
  }
  remove_ah(session, handle);
  return Outcome::kReply;
}

void remove_ah(Session& session, std::uint32_t handle) {
  const std::unique_ptr<AddressHandle> ah = session.address_handles.remove(handle);
  retire(session, session.addresses.put(handle, nullptr));
  --ah->pd->users;
  --session.card().totals.address_handles;
}

Result<Outcome> resolve_gid(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::ResolveGidRequest>();
  if (Status status = check_address(*session.device(), body.address); !status) {
    return status.error();
  }
  const auto path = make_path(*session.device(), body.address, 0, 0, session.card().clock());
  if (!path) {
    return path.error();
  }
  if (!*path) {
    return Outcome::kWait;
  }
  abi::ResolveGidReply answer{};
  const auto& mac = (*path)->destination_mac.bytes;
  std::copy(mac.begin(), mac.end(), std::begin(answer.mac));
  answer.vlan = (*path)->vlan_id();
  reply->set(answer);
  return Outcome::kReply;
}

namespace {

template <std::size_t kSize>
std::string text_of(const char (&field)[kSize]) {
  return {field, ::strnlen(field, kSize)};
}

// The device of this name, or the first one.
Device* find_device(Card& card, const std::string& name) {
  for (Device& device : card.devices()) {
    if (name.empty() || device.name() == name) {
      return &device;
    }
  }
  return nullptr;
}

}  // namespace

Result<Outcome> change_address(Session& session, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ChangeAddressRequest>();
  Card& card = session.card();
  // An address decides who is taken for whom on the network.
  if (!is_administrator(session.peer())) {
    return Error{EPERM, "only root and the daemon's own user may change addresses"};
  }
  Device* device = find_device(card, text_of(body.device));
  if (device == nullptr) {
    return Error{ENODEV, "there is no device " + text_of(body.device)};
  }
  const auto prefix = parse_prefix(text_of(body.prefix));
  if (!prefix) {
    return prefix.error();
  }
  Status status = body.add != 0 ? add_address(card, *device, *prefix)
                                : remove_address(card, *device, prefix->address);
  if (!status) {
    return status.error();
  }
  return Outcome::kReply;
}

}  // namespace uroce::control
