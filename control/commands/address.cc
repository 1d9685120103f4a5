// Commands about addresses: handles, the Ethernet address of a GID, and the port's own.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "abi/address_records.h"
#include "control/commands/address_changes.h"
#include "control/commands/command_table.h"
#include "control/commands/conversation.h"
#include "control/commands/destroy.h"
#include "control/ip/addresses/bare_address.h"
#include "control/ip/path_resolution.h"
#include "control/sessions/teardown.h"

namespace uroce::control {

Result<Outcome> create_ah(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::CreateAhRequest>();
  Card& card = session.card();
  const auto pd = session.pds.get(body.pd);
  if (!pd) {
    return pd.error();
  }
  auto charge = session.account()->charge(Limit::kAhs);
  if (!charge) {
    return charge.error();
  }
  if (Status status = check_address(*session.device(), body.address); !status) {
    return status.error();
  }
  const auto path =
      make_path(*session.device(), body.address, 0, 0, card.now(), session.account()->user());
  if (!path) {
    return path.error();
  }
  if (!*path) {
    return Outcome::kWait;
  }
  const std::uint32_t handle = session.address_handles.add(
      std::make_unique<AddressHandle>(AddressHandle{*pd, **path, std::move(*charge)}));
  try {
    session.addresses().publish(handle, (*pd)->id, **path);
  } catch (const std::bad_alloc&) {
    (void)session.address_handles.remove(handle);  // no worker has seen it
    throw;
  }
  ++(*pd)->users;
  reply->set_handle(handle);
  return Outcome::kReply;
}

Result<Outcome> destroy_ah(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.address_handles, request, remove_ah);
}

Result<Outcome> resolve_gid(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::ResolveGidRequest>();
  if (Status status = check_address(*session.device(), body.address); !status) {
    return status.error();
  }
  const auto path = make_path(*session.device(), body.address, 0, 0, session.card().now(),
                              session.account()->user());
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

Result<Outcome> change_address(Conversation& conversation, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ChangeAddressRequest>();
  const Services& services = conversation.services();
  // Addresses are the host's identity on the network, so only administrators change them.
  if (!is_administrator(conversation.session().peer())) {
    return Error{EPERM, "only root and the daemon's own user may change addresses"};
  }
  Device* device = find_device(services.card, text_of(body.device));
  if (device == nullptr) {
    return Error{ENODEV, "there is no device " + text_of(body.device)};
  }
  const auto prefix = parse_prefix(text_of(body.prefix));
  if (!prefix) {
    return prefix.error();
  }
  const bool finds_all = device->loops_back() || device->resolves_itself();
  if (body.add != 0 && !finds_all && is_bare_address(text_of(body.prefix))) {
    return Error{EINVAL, length_wanted(text_of(body.prefix))};
  }
  Status status = body.add != 0
                      ? add_address(services.card, services.kernel, *device, *prefix)
                      : remove_address(services.card, services.kernel, *device, prefix->address);
  if (!status) {
    return status.error();
  }
  return Outcome::kReply;
}

}  // namespace uroce::control
