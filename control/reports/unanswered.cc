#include "control/reports/unanswered.h"

#include "control/sessions/objects.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

// Answers to an address that the port no longer has are dropped, or reach another machine.
std::string without_address(const Device& device, const Path& path) {
  return "; and " + to_string(path.source_gid) +
         ", this queue pair's own address, is no longer an address of " + device.name() +
         ", so no answer arrives: connect again from one that `uroce addr` lists, or add it again "
         "(`uroce addr add`; where the port follows an interface, `ip address add`)";
}

}  // namespace

std::string why_unanswered(Card& card, const PathProblems& problems, const FailureReport& report) {
  if (report.failure != Failure::kRetriesExhausted) {
    return {};
  }
  const Owner* owner = card.qpns().find(report.qpn);
  const QpObject* object = owner == nullptr ? nullptr : owner->session->qps.find(owner->handle);
  if (object == nullptr || !object->path) {
    return {};
  }
  const Path& path = *object->path;
  const Device& device = *owner->session->device();
  if (!device.gids().owns(LinkAddress(path.source_gid, path.vlan_id()))) {
    return without_address(device, path);
  }
  const std::string problem = problems.last(path.destination_gid, card.now());
  return problem.empty() ? "" : "; and " + problem;
}

}  // namespace uroce::control
