#include "control/commands.h"

#include <cerrno>
#include <string>

#include "control/address_protocol.h"
#include "control/cm_protocol.h"
#include "control/cq_protocol.h"
#include "control/errors_protocol.h"
#include "control/import_protocol.h"
#include "control/memory_protocol.h"

namespace uroce::control {
namespace {

constexpr std::size_t kHandle = sizeof(HandleRequest);
constexpr std::size_t kBare = sizeof(RequestHeader);

constexpr CommandRule kRules[] = {
    {Command::kListDevices, "list devices", kBare, false, 0, false, list_devices},
    {Command::kOpenDevice, "open device", sizeof(OpenDeviceRequest), false, 0, false, open_device},
    {Command::kQueryDevice, "query device", kBare, false, 0, true, query_device},
    {Command::kQueryPort, "query port", sizeof(QueryPortRequest), false, 0, true, query_port},
    {Command::kQueryGid, "query GID", sizeof(QueryGidRequest), false, 0, true, query_gid},
    {Command::kAllocPd, "allocate PD", kBare, false, 0, true, alloc_pd},
    {Command::kDeallocPd, "deallocate PD", kHandle, false, 0, true, dealloc_pd},
    {Command::kShareArena, "share arena", sizeof(ShareArenaRequest), false, 1, true, share_arena},
    {Command::kRegMr, "register MR", sizeof(RegMrRequest), true, kDescriptorsMax, true, reg_mr},
    {Command::kDeregMr, "deregister MR", kHandle, false, 0, true, dereg_mr},
    {Command::kCreateChannel, "create channel", kBare, false, 0, true, create_channel},
    {Command::kDestroyChannel, "destroy channel", kHandle, false, 0, true, destroy_channel},
    {Command::kCreateCq, "create CQ", sizeof(CreateCqRequest), false, 0, true, create_cq},
    {Command::kDestroyCq, "destroy CQ", kHandle, false, 0, true, destroy_cq},
    {Command::kOpenXrcd, "open XRCD", sizeof(OpenXrcdRequest), false, 1, true, open_xrcd},
    {Command::kCloseXrcd, "close XRCD", kHandle, false, 0, true, close_xrcd},
    {Command::kOpenQp, "open QP", sizeof(OpenQpRequest), false, 0, true, open_qp},
    {Command::kCreateSrq, "create SRQ", sizeof(CreateSrqRequest), false, 0, true, create_srq},
    {Command::kModifySrq, "modify SRQ", sizeof(ModifySrqRequest), false, 0, true, modify_srq},
    {Command::kQuerySrq, "query SRQ", kHandle, false, 0, true, query_srq},
    {Command::kDestroySrq, "destroy SRQ", kHandle, false, 0, true, destroy_srq},
    {Command::kCreateQp, "create QP", sizeof(CreateQpRequest), false, 0, true, create_qp},
    {Command::kModifyQp, "modify QP", sizeof(ModifyQpRequest), false, 0, true, modify_qp},
    {Command::kQueryQp, "query QP", kHandle, false, 0, true, query_qp},
    {Command::kDestroyQp, "destroy QP", kHandle, false, 0, true, destroy_qp},
    {Command::kCreateAh, "create AH", sizeof(CreateAhRequest), false, 0, true, create_ah},
    {Command::kDestroyAh, "destroy AH", kHandle, false, 0, true, destroy_ah},
    {Command::kResolveGid, "resolve GID", sizeof(ResolveGidRequest), false, 0, true, resolve_gid},
    {Command::kErrors, "errors", sizeof(ErrorsRequest), false, 0, false, report_errors},
    {Command::kOwnErrors, "own errors", sizeof(ErrorsRequest), false, 0, true, own_errors},
    {Command::kModifyCq, "modify CQ", sizeof(ModifyCqRequest), false, 0, true, modify_cq},
    {Command::kResizeCq, "resize CQ", sizeof(ResizeCqRequest), false, 0, true, resize_cq},
    {Command::kImportPd, "import PD", kHandle, false, 0, true, import_pd},
    {Command::kImportMr, "import MR", sizeof(ImportMrRequest), false, 0, true, import_mr},
    {Command::kAttachMulticast, "attach to group", sizeof(MulticastRequest), false, 0, true,
     attach_multicast},
    {Command::kDetachMulticast, "detach from group", sizeof(MulticastRequest), false, 0, true,
     detach_multicast},
    {Command::kCmOpenChannel, "open event channel", kBare, false, 0, false, cm_open_channel},
    {Command::kCmCloseChannel, "close event channel", kHandle, false, 0, false, cm_close_channel},
    {Command::kCmCommand, "rdma_cm command", sizeof(CmCommandRequest), true, 0, false, cm_command},
    {Command::kChooseNumbers, "choose numbers", sizeof(ChooseNumbersRequest), false, 0, true,
     choose_numbers},
    {Command::kChangeAddress, "change address", sizeof(ChangeAddressRequest), false, 0, false,
     change_address},
    {Command::kAllocMw, "allocate MW", sizeof(AllocMwRequest), false, 0, true, alloc_mw},
    {Command::kDeallocMw, "deallocate MW", kHandle, false, 0, true, dealloc_mw},
    {Command::kAllocNullMr, "allocate null MR", sizeof(AllocNullMrRequest), false, 0, true,
     alloc_null_mr},
    {Command::kAllocDm, "allocate DM", sizeof(AllocDmRequest), false, 0, true, alloc_dm},
    {Command::kFreeDm, "free DM", kHandle, false, 0, true, free_dm},
    {Command::kImportDm, "import DM", kHandle, false, 0, true, import_dm},
    {Command::kRegDmMr, "register DM MR", sizeof(RegDmMrRequest), false, 0, true, reg_dm_mr},
    {Command::kOpenPaging, "open paging", kBare, false, 0, true, open_paging},
    {Command::kAdviseMr, "advise MR", sizeof(AdviseMrRequest), true, 0, true, advise_mr},
    {Command::kStatus, "status", kBare, false, 0, false, report_status},
    {Command::kOdpStatus, "ODP status", kBare, false, 0, false, report_paging},
};

// Of two commands with one number the second would never be found.
consteval bool numbers_differ() {
  for (const CommandRule& one : kRules) {
    int same = 0;
    for (const CommandRule& other : kRules) {
      same += one.command == other.command ? 1 : 0;
    }
    if (same != 1) {
      return false;
    }
  }
  return true;
}
static_assert(numbers_differ());

}  // namespace

std::span<const CommandRule> command_rules() { return kRules; }

const CommandRule* command_rule(Command command) {
  for (const CommandRule& rule : kRules) {
    if (rule.command == command) {
      return &rule;
    }
  }
  return nullptr;
}

Error no_such(const char* kind, std::uint32_t handle) {
  return {EINVAL,
          "there is no " + std::string(kind) + " with handle " + std::to_string(handle) + " here"};
}

Error still_used(const char* kind, std::uint32_t handle, std::uint32_t users) {
  return {EBUSY, std::string(kind) + " " + std::to_string(handle) + " is still used by " +
                     std::to_string(users) + " objects"};
}

}  // namespace uroce::control
