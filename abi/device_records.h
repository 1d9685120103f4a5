#pragma once

// Records about devices: listing and opening one, its attributes, its port and its GIDs
// (command_records.h has the protocol).

#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

struct DeviceRecord {
  char name[kDeviceNameMax];  // uroce0
  std::uint64_t node_guid;    // big-endian, as verbs hand it out
  std::uint32_t index;        // among the daemon's devices, by which requests name it
  // ibv_get_device_index: positive, and a new one with each start of the daemon.
  std::uint32_t instance;
  std::uint32_t vendor_id, vendor_part_id, hw_ver, reserved;
};
static_assert(sizeof(DeviceRecord) == 96);
struct ListDevicesReply {
  ReplyHeader header;
  std::uint32_t count;
  std::uint32_t reserved;
  DeviceRecord devices[16];
};
static_assert(sizeof(ListDevicesReply) == 1816);

// The credential for ibv_import_device(), to which ibv_context.cmd_fd refers: a sealed memfd that
// holds this struct. Whoever has the descriptor may import protection domains and regions of the
// session.
struct ImportToken {
  std::uint64_t session;
  std::uint8_t secret[16];
  std::uint32_t device;
  std::uint32_t magic;  // kMagic; 0 in kOpenDevice: nothing is to be imported
};
static_assert(sizeof(ImportToken) == 32);

struct OpenDeviceRequest {
  RequestHeader header;
  std::uint32_t device;
  std::uint32_t reserved;
  ImportToken exporter;
};
static_assert(sizeof(OpenDeviceRequest) == 64);
// Descriptors: the program's end of the async event socket (records AsyncEventRecord), a memfd with
// workers x Doorbells (each at a multiple of doorbells_stride) and behind them a CommandPage, a
// read-only memfd with workers x WorkerStatus (each at a multiple of status_stride), a memfd with
// this session's ImportToken, then `workers` eventfds. Once the program has mapped the first memfd,
// it seals it with F_SEAL_FUTURE_WRITE; until then the CommandPage isn't used.
struct OpenDeviceReply {
  ReplyHeader header;
  std::uint64_t doorbells_stride;
  std::uint64_t status_stride;
  std::uint32_t workers;
  std::uint32_t ports;
  // The daemon's, whom Yama must let reach the program's memory; 0: it needs no exception.
  std::uint32_t traced_by, reserved;
  DeviceRecord device;  // not as the program has listed it if the daemon was restarted since
};
static_assert(sizeof(OpenDeviceReply) == 400);
struct AsyncEventRecord {
  std::uint32_t event;   // enum ibv_event_type
  std::uint32_t handle;  // of the QP, CQ or SRQ in this session, or the port number
  std::uint64_t cookie;  // that the program gave the object at creation
};
static_assert(sizeof(AsyncEventRecord) == 16);

// Values as ibv_device_attr has them; the shim adds what only it knows.
struct DeviceAttributes {
  std::uint64_t max_mr_size, page_size_cap;
  std::uint32_t vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr, max_sge, max_sge_rd,
      max_inline, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_qp_init_rd_atom,
      max_res_rd_atom, max_ah, max_srq, max_srq_wr, max_srq_sge, max_mw, max_mcast_grp,
      max_mcast_qp_attach, max_total_mcast_qp_attach, max_pkeys, local_ca_ack_delay, phys_ports;
  std::uint64_t max_dm_size;
  std::uint64_t node_guid, sys_image_guid;  // big-endian
  char fw_ver[64];
};
static_assert(sizeof(DeviceAttributes) == 208);
struct QueryDeviceReply {
  ReplyHeader header;
  DeviceAttributes attributes;
};
static_assert(sizeof(QueryDeviceReply) == 480);

struct QueryPortRequest {
  RequestHeader header;
  std::uint32_t port;  // 1
  std::uint32_t reserved;
};
static_assert(sizeof(QueryPortRequest) == 32);
struct QueryPortReply {
  ReplyHeader header;
  std::uint32_t state, max_mtu, active_mtu;  // enums of ibv_port_attr
  std::uint32_t gid_count, max_msg_size, pkey_count, active_width, active_speed, phys_state;
  std::uint32_t netdev_index;  // of the kernel interface that carries the address, or 0
};
static_assert(sizeof(QueryPortReply) == 312);

struct QueryGidRequest {
  RequestHeader header;
  std::uint32_t port, index;
};
static_assert(sizeof(QueryGidRequest) == 32);
struct QueryGidReply {
  ReplyHeader header;
  std::uint8_t gid[16];  // zeroes: no entry
  std::uint32_t type;    // enum ibv_gid_type
  std::uint32_t netdev_index;
};
static_assert(sizeof(QueryGidReply) == 296);

}  // namespace uroce::abi
