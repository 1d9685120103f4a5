// Commands about devices, and the reports on status and limits.

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/sockets/record_socket.h"
#include "base/version.h"
#include "control/commands/command_table.h"
#include "control/commands/conversation.h"
#include "control/ip/limits.h"
#include "control/reports/limits_report.h"
#include "control/reports/status.h"
#include "control/sessions/card_limits.h"

namespace uroce::control {

Result<Outcome> list_devices(Session& session, Request& /*request*/, Reply* reply) {
  abi::ListDevicesReply body{};
  for (const Device& device : session.card().devices()) {
    body.devices[body.count++] = device.record();
  }
  reply->set(body);
  return Outcome::kReply;
}

Result<Outcome> open_device(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::OpenDeviceRequest>();
  if (session.device() != nullptr) {
    return Error{EBUSY, "this connection already has an open device"};
  }
  if (body.device >= session.card().devices().size()) {
    return Error{ENODEV, "there is no device " + std::to_string(body.device)};
  }
  if (body.exporter.magic != 0) {
    if (Status status = session.import_from(body.exporter); !status) {
      return status.error();
    }
  }
  auto opened = session.open(session.card().devices()[body.device]);
  if (!opened) {
    return opened.error();
  }
  reply->set(opened->reply);
  reply->descriptors = std::move(opened->descriptors);
  return Outcome::kReply;
}

namespace {

abi::DeviceAttributes attributes_of(const Device& device) {
  const abi::DeviceRecord record = device.record();
  abi::DeviceAttributes attributes{};
  attributes.max_mr_size = kRegionBytesMax;
  attributes.page_size_cap = 0xFFFF'F000;  // every power of two from 4 KiB on
  attributes.vendor_id = record.vendor_id;
  attributes.vendor_part_id = record.vendor_part_id;
  attributes.hw_ver = record.hw_ver;
  attributes.max_qp = kQpsMax;
  attributes.max_qp_wr = kWorkRequestsMax;
  attributes.max_sge = kSgeMax;
  attributes.max_sge_rd = kSgeMax;
  attributes.max_inline = kInlineMax;
  attributes.max_cq = kCqsMax;
  attributes.max_cqe = kCqesMax;
  attributes.max_mr = kRegionsMax;
  attributes.max_mw = kWindowsMax;
  attributes.max_dm_size = kDeviceMemoryMax;
  attributes.max_pd = kPdsMax;
  attributes.max_qp_rd_atom = kReadsAndAtomicsMax;
  attributes.max_qp_init_rd_atom = kReadsAndAtomicsMax;
  attributes.max_res_rd_atom = kReadsAndAtomicsMax * kQpsMax;
  attributes.max_ah = kAddressHandlesMax;
  attributes.max_srq = kSrqsMax;
  attributes.max_srq_wr = kWorkRequestsMax;
  attributes.max_srq_sge = kSgeMax;
  attributes.max_mcast_grp = kGroupsMax;
  attributes.max_mcast_qp_attach = kGroupMembersMax;
  attributes.max_total_mcast_qp_attach = kGroupsMax * kGroupMembersMax;
  attributes.max_pkeys = kPkeysMax;
  attributes.local_ca_ack_delay = kAckDelayCode;
  attributes.phys_ports = 1;
  attributes.node_guid = record.node_guid;
  attributes.sys_image_guid = attributes.node_guid;
  std::snprintf(attributes.fw_ver, sizeof(attributes.fw_ver), "%s", kReleaseVersion);
  return attributes;
}

}  // namespace

Result<Outcome> query_device(Session& session, Request& /*request*/, Reply* reply) {
  reply->set(abi::QueryDeviceReply{.header = {}, .attributes = attributes_of(*session.device())});
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

Result<Outcome> choose_numbers(Conversation& conversation, Request& request, Reply* /*reply*/) {
  const auto body = request.as<abi::ChooseNumbersRequest>();
  if (!conversation.services().numbers_may_be_chosen) {
    return Error{EPERM, "only a daemon that runs with --console lets programs choose numbers"};
  }
  conversation.session().choose(body.qpn, body.key);
  return Outcome::kReply;
}

namespace {

Result<Outcome> report_with(Conversation& conversation, StatusReport::Detail detail) {
  const Services& services = conversation.services();
  const Session& session = conversation.session();
  auto report =
      std::make_unique<StatusReport>(services.card, services.connections, services.watchdog,
                                     session.peer(), session.account(), detail);
  if (Status status = conversation.answer_with(std::move(report)); !status) {
    return status.error();
  }
  return Outcome::kPieces;
}

}  // namespace

Result<Outcome> report_status(Conversation& conversation, Request& /*request*/, Reply* /*reply*/) {
  return report_with(conversation, StatusReport::Detail::kPlain);
}

Result<Outcome> report_devices(Conversation& conversation, Request& /*request*/, Reply* /*reply*/) {
  return report_with(conversation, StatusReport::Detail::kDevices);
}

Result<Outcome> report_objects(Conversation& conversation, Request& /*request*/, Reply* /*reply*/) {
  return report_with(conversation, StatusReport::Detail::kObjects);
}

// Devices and workers are visible to everybody, the number of programs isn't.
Result<Outcome> report_history(Conversation& conversation, Request& /*request*/, Reply* reply) {
  const Services& services = conversation.services();
  if (services.sampler == nullptr) {
    return Error{EOPNOTSUPP, "this daemon keeps no history"};
  }
  std::vector<std::string> names;
  for (const Device& device : services.card.devices()) {
    names.push_back(device.name());
  }
  reply->set_text(history_json(services.sampler->history(), names, Sampler::kInterval,
                               is_administrator(conversation.session().peer())));
  return Outcome::kReply;
}

Result<Outcome> report_limits(Session& session, Request& /*request*/, Reply* reply) {
  reply->set_text(limits_text(session.card().shares(), session.peer(), *session.account()));
  return Outcome::kReply;
}

}  // namespace uroce::control
