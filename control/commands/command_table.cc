#include "control/commands/command_table.h"

#include <algorithm>

#include "abi/address_records.h"
#include "abi/capture_records.h"
#include "abi/cm_records.h"
#include "abi/cq_records.h"
#include "abi/device_records.h"
#include "abi/error_records.h"
#include "abi/import_records.h"
#include "abi/memory_records.h"

namespace uroce::control {
namespace {

constexpr std::size_t kHandle = sizeof(abi::HandleRequest);
constexpr std::size_t kBare = sizeof(abi::RequestHeader);

constexpr CommandRule kRules[] = {
    {abi::Command::kListDevices, "list devices", kBare, false, 0, false, list_devices},
    {abi::Command::kOpenDevice, "open device", sizeof(abi::OpenDeviceRequest), false, 0, false,
     open_device},
    {abi::Command::kQueryDevice, "query device", kBare, false, 0, true, query_device},
    {abi::Command::kQueryPort, "query port", sizeof(abi::QueryPortRequest), false, 0, true,
     query_port},
    {abi::Command::kQueryGid, "query GID", sizeof(abi::QueryGidRequest), false, 0, true, query_gid},
    {abi::Command::kAllocPd, "allocate PD", kBare, false, 0, true, alloc_pd},
    {abi::Command::kDeallocPd, "deallocate PD", kHandle, false, 0, true, dealloc_pd},
    {abi::Command::kShareArena, "share arena", sizeof(abi::ShareArenaRequest), false, 1, true,
     share_arena},
    {abi::Command::kRegMr, "register MR", sizeof(abi::RegMrRequest), true, kDescriptorsMax, true,
     reg_mr},
    {abi::Command::kDeregMr, "deregister MR", kHandle, false, 0, true, dereg_mr},
    {abi::Command::kCreateChannel, "create channel", kBare, false, 0, true, create_channel},
    {abi::Command::kDestroyChannel, "destroy channel", kHandle, false, 0, true, destroy_channel},
    {abi::Command::kCreateCq, "create CQ", sizeof(abi::CreateCqRequest), false, 0, true, create_cq},
    {abi::Command::kDestroyCq, "destroy CQ", kHandle, false, 0, true, destroy_cq},
    {abi::Command::kOpenXrcd, "open XRCD", sizeof(abi::OpenXrcdRequest), false, 1, true, open_xrcd},
    {abi::Command::kCloseXrcd, "close XRCD", kHandle, false, 0, true, close_xrcd},
    {abi::Command::kOpenQp, "open QP", sizeof(abi::OpenQpRequest), false, 0, true, open_qp},
    {abi::Command::kCreateSrq, "create SRQ", sizeof(abi::CreateSrqRequest), false, 0, true,
     create_srq},
    {abi::Command::kModifySrq, "modify SRQ", sizeof(abi::ModifySrqRequest), false, 0, true,
     modify_srq},
    {abi::Command::kQuerySrq, "query SRQ", kHandle, false, 0, true, query_srq},
    {abi::Command::kDestroySrq, "destroy SRQ", kHandle, false, 0, true, destroy_srq},
    {abi::Command::kCreateQp, "create QP", sizeof(abi::CreateQpRequest), false, 0, true, create_qp},
    {abi::Command::kMapRings, "map rings", kHandle, false, 0, true, map_rings},
    {abi::Command::kModifyQp, "modify QP", sizeof(abi::ModifyQpRequest), false, 0, true, modify_qp},
    {abi::Command::kQueryQp, "query QP", kHandle, false, 0, true, query_qp},
    {abi::Command::kDestroyQp, "destroy QP", kHandle, false, 0, true, destroy_qp},
    {abi::Command::kCreateAh, "create AH", sizeof(abi::CreateAhRequest), false, 0, true, create_ah},
    {abi::Command::kDestroyAh, "destroy AH", kHandle, false, 0, true, destroy_ah},
    {abi::Command::kResolveGid, "resolve GID", sizeof(abi::ResolveGidRequest), false, 0, true,
     resolve_gid},
    {abi::Command::kErrors, "errors", sizeof(abi::ErrorsRequest), false, 0, false, report_errors},
    {abi::Command::kOwnErrors, "own errors", sizeof(abi::ErrorsRequest), false, 0, true,
     own_errors},
    {abi::Command::kModifyCq, "modify CQ", sizeof(abi::ModifyCqRequest), false, 0, true, modify_cq},
    {abi::Command::kResizeCq, "resize CQ", sizeof(abi::ResizeCqRequest), false, 0, true, resize_cq},
    {abi::Command::kResizeSrq, "resize SRQ", sizeof(abi::ResizeSrqRequest), false, 0, true,
     resize_srq},
    {abi::Command::kImportPd, "import PD", kHandle, false, 0, true, import_pd},
    {abi::Command::kImportMr, "import MR", sizeof(abi::ImportMrRequest), false, 0, true, import_mr},
    {abi::Command::kAttachMulticast, "attach to group", sizeof(abi::MulticastRequest), false, 0,
     true, attach_multicast},
    {abi::Command::kDetachMulticast, "detach from group", sizeof(abi::MulticastRequest), false, 0,
     true, detach_multicast},
    {abi::Command::kCmOpenChannel, "open event channel", kBare, false, 0, false, cm_open_channel},
    {abi::Command::kCmCloseChannel, "close event channel", kHandle, false, 0, false,
     cm_close_channel},
    {abi::Command::kCmCommand, "rdma_cm command", sizeof(abi::CmCommandRequest), true, 0, false,
     cm_command},
    {abi::Command::kChooseNumbers, "choose numbers", sizeof(abi::ChooseNumbersRequest), false, 0,
     true, choose_numbers},
    {abi::Command::kChangeAddress, "change address", sizeof(abi::ChangeAddressRequest), false, 0,
     false, change_address},
    {abi::Command::kAllocMw, "allocate MW", sizeof(abi::AllocMwRequest), false, 0, true, alloc_mw},
    {abi::Command::kDeallocMw, "deallocate MW", kHandle, false, 0, true, dealloc_mw},
    {abi::Command::kAllocNullMr, "allocate null MR", sizeof(abi::AllocNullMrRequest), false, 0,
     true, alloc_null_mr},
    {abi::Command::kAllocDm, "allocate DM", sizeof(abi::AllocDmRequest), false, 0, true, alloc_dm},
    {abi::Command::kFreeDm, "free DM", kHandle, false, 0, true, free_dm},
    {abi::Command::kImportDm, "import DM", kHandle, false, 0, true, import_dm},
    {abi::Command::kRegDmMr, "register DM MR", sizeof(abi::RegDmMrRequest), false, 0, true,
     reg_dm_mr},
    {abi::Command::kOpenPaging, "open paging", kBare, false, 0, true, open_paging},
    {abi::Command::kAdviseMr, "advise MR", sizeof(abi::AdviseMrRequest), true, 0, true, advise_mr},
    {abi::Command::kStatus, "status", kBare, false, 0, false, report_status},
    {abi::Command::kDeviceStatus, "device status", kBare, false, 0, false, report_devices},
    {abi::Command::kObjects, "objects", kBare, false, 0, false, report_objects},
    {abi::Command::kCapture, "capture", sizeof(abi::CaptureRequest), false, 0, false,
     begin_capture},
    {abi::Command::kHistory, "history", kBare, false, 0, false, report_history},
    {abi::Command::kLimits, "limits", kBare, false, 0, false, report_limits},
    {abi::Command::kOdpStatus, "ODP status", kBare, false, 0, false, report_paging},
};

// See gives_back(). rdma_cm's commands share one, which decides for each of them.
constexpr abi::Command kGivingBack[] = {
    abi::Command::kDeallocPd,       abi::Command::kDeregMr,    abi::Command::kDestroyChannel,
    abi::Command::kDestroyCq,       abi::Command::kDestroySrq, abi::Command::kDestroyQp,
    abi::Command::kDestroyAh,       abi::Command::kCloseXrcd,  abi::Command::kDeallocMw,
    abi::Command::kDetachMulticast, abi::Command::kFreeDm,     abi::Command::kCmCloseChannel,
    abi::Command::kCmCommand,
};

// Of two commands with the same number, the second would never be found.
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

bool gives_back(const CommandRule& rule) {
  return std::find(std::begin(kGivingBack), std::end(kGivingBack), rule.command) !=
         std::end(kGivingBack);
}

const CommandRule* command_rule(abi::Command command) {
  for (const CommandRule& rule : kRules) {
    if (rule.command == command) {
      return &rule;
    }
  }
  return nullptr;
}

}  // namespace uroce::control
