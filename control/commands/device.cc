// Commands about devices, and the status report.

#include <cerrno>

#include "control/commands/command_table.h"
#include "control/reports/status.h"

namespace uroce::control {

Result<Outcome> list_devices(Session& session, Request& /*request*/, Reply* reply) {
  abi::ListDevicesReply body{};
  for (const Device& device : session.card().devices()) {
    body.devices[body.count++] = device.record();
  }
  reply->set(body);
  return Outcome::kReply;
}

namespace {

// Lets the session import from the one that gave the ticket out.
Status present_ticket(Session& session, const abi::Ticket& ticket) {
  const auto& sessions = session.card().sessions;
  const auto found = sessions.find(ticket.session);
  if (found == sessions.end() || found->second->device() == nullptr) {
    return Error{ENODEV, "the program whose device is to be imported has closed it"};
  }
  if (std::memcmp(&found->second->ticket(), &ticket, sizeof(ticket)) != 0) {
    return Error{EACCES, "the descriptor to import from isn't one that this uroced gave out"};
  }
  session.exporter = ticket.session;
  return ok();
}

}  // namespace

Result<Outcome> open_device(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::OpenDeviceRequest>();
  if (session.device() != nullptr) {
    return Error{EBUSY, "this connection has its device open already"};
  }
  if (body.device >= session.card().devices().size()) {
    return Error{ENODEV, "there is no device " + std::to_string(body.device)};
  }
  if (body.exporter.magic != 0) {
    if (Status status = present_ticket(session, body.exporter); !status) {
      return status.error();
    }
  }
  return session.open(session.card().devices()[body.device], reply);
}

Result<Outcome> query_device(Session& session, Request& /*request*/, Reply* reply) {
  reply->set(abi::QueryDeviceReply{.header = {}, .attributes = session.device()->attributes()});
  return Outcome::kReply;
}

namespace {

Status check_port(std::uint32_t port) {
  if (port != 1) {
    return Error{EINVAL, "a device has one port, number 1, and no port " + std::to_string(port)};
  }
  return ok();
}

}  // namespace

Result<Outcome> query_port(Session& session, Request& request, Reply* reply) {
  if (Status status = check_port(request.as<abi::QueryPortRequest>().port); !status) {
    return status.error();
  }
  abi::QueryPortReply body{};
  session.device()->fill_port(&body);
  reply->set(body);
  return Outcome::kReply;
}

Result<Outcome> query_gid(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::QueryGidRequest>();
  if (Status status = check_port(body.port); !status) {
    return status.error();
  }
  if (body.index >= kGidsMax) {
    return Error{EINVAL, "GID index " + std::to_string(body.index) + " is beyond the table's " +
                             std::to_string(kGidsMax) + " entries"};
  }
  abi::QueryGidReply answer{};
  session.device()->fill_gid(body.index, &answer);
  reply->set(answer);
  return Outcome::kReply;
}

Result<Outcome> choose_numbers(Session& session, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ChooseNumbersRequest>();
  if (!session.card().numbers_may_be_chosen) {
    return Error{EPERM, "numbers may be chosen only of a daemon that runs with --console"};
  }
  session.chosen_qpn = body.qpn;
  session.chosen_key = body.key;
  return Outcome::kReply;
}

Result<Outcome> report_status(Session& session, Request& /*request*/, Reply* reply) {
  const std::string text = status_text(session.card());
  const auto bytes = std::as_bytes(std::span(text));
  reply->bytes.insert(reply->bytes.end(), bytes.begin(), bytes.end());
  return Outcome::kReply;
}

}  // namespace uroce::control
