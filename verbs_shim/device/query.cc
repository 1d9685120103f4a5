// Queries about a device and its ports.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/time/monotonic_clock.h"
#include "verbs_shim/device/devices.h"
#include "verbs_shim/memory/paging/paging.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

constexpr __be16 kDefaultPkey = 0xFFFF;
constexpr std::uint32_t kVirtualLanes = 1;
constexpr std::uint32_t kSubnetTimeout = 18;
constexpr std::uint64_t kNanosecondClockKhz = 1'000'000;
constexpr std::uint16_t kModerationMax =
    0xFFFF;  // completions, or microseconds: the maximum of the field
// The operations of queue pairs on memory that is paged on demand: the same as on other memory.
// Messages received by unreliable ones wait for it too; beyond the limit they are lost, as
// datagrams may be.
constexpr std::uint32_t kOdpUd =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint32_t kOdpUc = kOdpUd | IBV_ODP_SUPPORT_WRITE;
constexpr std::uint32_t kOdpReliable = kOdpUc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                                       UROCE_ODP_SUPPORT_FLUSH | UROCE_ODP_SUPPORT_ATOMIC_WRITE;

ibv_device_attr to_verbs(const abi::DeviceAttributes& from) {
  ibv_device_attr to{};
  std::memcpy(to.fw_ver, from.fw_ver, sizeof(to.fw_ver));
  to.fw_ver[sizeof(to.fw_ver) - 1] = '\0';
  to.node_guid = from.node_guid;
  to.sys_image_guid = from.sys_image_guid;
  to.max_mr_size = from.max_mr_size;
  to.page_size_cap = from.page_size_cap;
  to.vendor_id = from.vendor_id;
  to.vendor_part_id = from.vendor_part_id;
  to.hw_ver = from.hw_ver;
  to.max_qp = static_cast<int>(from.max_qp);
  to.max_qp_wr = static_cast<int>(from.max_qp_wr);
  to.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                        IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                        IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                        IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC | IBV_DEVICE_SRQ_RESIZE;
  to.max_sge = static_cast<int>(from.max_sge);
  to.max_sge_rd = static_cast<int>(from.max_sge_rd);
  to.max_cq = static_cast<int>(from.max_cq);
  to.max_cqe = static_cast<int>(from.max_cqe);
  to.max_mr = static_cast<int>(from.max_mr);
  to.max_pd = static_cast<int>(from.max_pd);
  to.max_qp_rd_atom = static_cast<int>(from.max_qp_rd_atom);
  to.max_res_rd_atom = static_cast<int>(from.max_res_rd_atom);
  to.max_qp_init_rd_atom = static_cast<int>(from.max_qp_init_rd_atom);
  // Atomic among themselves. On shared memory they are also atomic with the processor, but a
  // program can't be told beforehand which of its memory will be accessed through /proc/PID/mem
  // (docs/memory.md, "Atomics").
  to.atomic_cap = IBV_ATOMIC_HCA;
  to.max_mw = static_cast<int>(from.max_mw);
  to.max_mcast_grp = static_cast<int>(from.max_mcast_grp);
  to.max_mcast_qp_attach = static_cast<int>(from.max_mcast_qp_attach);
  to.max_total_mcast_qp_attach = static_cast<int>(from.max_total_mcast_qp_attach);
  to.max_ah = static_cast<int>(from.max_ah);
  to.max_srq = static_cast<int>(from.max_srq);
  to.max_srq_wr = static_cast<int>(from.max_srq_wr);
  to.max_srq_sge = static_cast<int>(from.max_srq_sge);
  to.max_pkeys = static_cast<std::uint16_t>(from.max_pkeys);
  to.local_ca_ack_delay = static_cast<std::uint8_t>(from.local_ca_ack_delay);
  to.phys_port_cnt = static_cast<std::uint8_t>(from.phys_ports);
  return to;
}

int ask_device(const char* call_name, ibv_context* context, abi::QueryDeviceReply& reply) {
  Context& self = *of(context);
  PlainRequest request{};
  // A forked child may still query its parent's device attributes, which don't change.
  int error = 0;
  if (!self.client.abandoned()) {
    error = self.client.call(call_name, abi::Command::kQueryDevice, request, reply);
  }
  pthread_mutex_lock(&context->mutex);
  if (self.client.abandoned()) {
    error = self.device_known ? 0 : ENODEV;
    reply = self.device;
  } else if (error == 0) {
    self.device = reply;
    self.device_known = true;
  }
  pthread_mutex_unlock(&context->mutex);
  return error;
}

int ask_port(ibv_context* context, std::uint32_t port, ibv_port_attr& attr) {
  abi::QueryPortRequest request{};
  request.port = port;
  abi::QueryPortReply reply{};
  const int error =
      of(context)->client.call("ibv_query_port", abi::Command::kQueryPort, request, reply);
  if (error != 0) {
    return error;
  }
  attr = {};
  attr.state = static_cast<ibv_port_state>(reply.state);
  attr.max_mtu = static_cast<ibv_mtu>(reply.max_mtu);
  attr.active_mtu = static_cast<ibv_mtu>(reply.active_mtu);
  attr.gid_tbl_len = static_cast<int>(reply.gid_count);
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = reply.max_msg_size;
  attr.pkey_tbl_len = static_cast<std::uint16_t>(reply.pkey_count);
  attr.max_vl_num = kVirtualLanes;
  attr.subnet_timeout = kSubnetTimeout;
  attr.active_width = static_cast<std::uint8_t>(reply.active_width);
  attr.active_speed = static_cast<std::uint8_t>(reply.active_speed);
  attr.phys_state = static_cast<std::uint8_t>(reply.phys_state);
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
  return 0;
}

}  // namespace

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t length) {
  ibv_port_attr full{};
  const int error = ask_port(context, port, full);
  if (error != 0) {
    return error;
  }
  std::memset(attr, 0, length);
  std::memcpy(attr, &full, std::min(length, sizeof(full)));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t length) {
  if (input != nullptr && input->comp_mask != 0) {
    return EINVAL;
  }
  ibv_device_attr_ex full{};
  abi::QueryDeviceReply reply{};
  const int error = ask_device("ibv_query_device_ex", context, reply);
  if (error != 0) {
    return error;
  }
  full.orig_attr = to_verbs(reply.attributes);
  full.max_dm_size = reply.attributes.max_dm_size;
  if (PagingSession::allowed()) {
    full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    full.odp_caps.per_transport_caps = {
        .rc_odp_caps = kOdpReliable, .uc_odp_caps = kOdpUc, .ud_odp_caps = kOdpUd};
    full.xrc_odp_caps = kOdpReliable;
  }
  full.completion_timestamp_mask = ~0ULL;
  full.hca_core_clock = kNanosecondClockKhz;
  full.cq_mod_caps = {.max_cq_count = kModerationMax, .max_cq_period = kModerationMax};
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags | UROCE_DEVICE_FLUSH_GLOBAL |
                             UROCE_DEVICE_FLUSH_PERSISTENT | UROCE_DEVICE_ATOMIC_WRITE;
  full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
  std::memset(attr, 0, length);
  std::memcpy(attr, &full, std::min(length, sizeof(full)));
  return 0;
}

// Completion timestamps are CLOCK_MONOTONIC in nanoseconds (abi::Cqe). The clock is returned in the
// same unit, as by mlx5: all of it in tv_nsec, which programs compare with the timestamps.
int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  (void)context;
  const std::uint32_t wanted = values->comp_mask;
  values->comp_mask = 0;
  if ((wanted & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) {
    return EINVAL;
  }
  if (wanted != 0) {
    values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<std::int64_t>(monotonic_now())};
    values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  }
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  abi::QueryDeviceReply reply{};
  const int error = ask_device("ibv_query_device", context, reply);
  if (error == 0) {
    *attr = to_verbs(reply.attributes);
  }
  return error;
}

// For programs built against old headers, whose structure ends before port_cap_flags2.
int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  ibv_port_attr full{};
  const int error = ask_port(context, port, full);
  if (error == 0) {
    std::memcpy(static_cast<void*>(attr), &full, offsetof(ibv_port_attr, port_cap_flags2));
  }
  return error;
}

// One partition, the default one: RoCE has no subnet manager to create others.
int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  ibv_port_attr attr{};
  int error = ask_port(context, port, attr);
  if (error == 0 && (index < 0 || index >= attr.pkey_tbl_len)) {
    error = EINVAL;
  }
  if (error != 0) {
    errno = error;
    return -1;
  }
  *pkey = index == 0 ? kDefaultPkey : 0;
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  ibv_port_attr attr{};
  const int error = pkey != kDefaultPkey ? EINVAL : ask_port(context, port, attr);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return 0;
}
}
