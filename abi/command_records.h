#pragma once

// The command protocol between shim and daemon, over a SOCK_SEQPACKET UNIX socket: one request
// record, one reply record with the same sequence number. Descriptors are passed by SCM_RIGHTS with
// the record that names them. Records are C structs of fixed size, but for two that end in an
// array; kVersion covers them. The daemon validates everything it receives: sizes, counts and
// handles.
//
// A session is one connection: one open device context of one program. When the socket closes,
// everything that the session owns is destroyed.

#include <fcntl.h>

#include <cstdint>

#include "abi/memory_piece.h"
#include "abi/ring.h"
#include "base/sockets/record_limits.h"

namespace uroce::abi {

inline constexpr std::uint32_t kMagic = 0x75726f63;  // "uroc"
inline constexpr std::uint32_t kMessageMax = 240;    // bytes of a reply's sentence, with its NUL
inline constexpr std::uint32_t kDeviceNameMax = 64;
inline constexpr std::uint32_t kPiecesMax = 512;        // behind the record of a kRegMr
inline constexpr std::uint32_t kPieceListMax = 65'536;  // of a region: in a file that comes with it
// What that file, a memfd, has to be sealed against.
inline constexpr int kPieceListSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
inline constexpr std::uint32_t kWorkersMax = 8;

enum class Command : std::uint32_t {
  kListDevices = 1,  // without a session: the devices
  kOpenDevice,       // makes the connection a session
  kQueryDevice,
  kQueryPort,
  kQueryGid,
  kAllocPd,
  kDeallocPd,
  kShareArena,  // hands the daemon a memfd into which the program converts its private memory
  kRegMr,
  kDeregMr,
  kCreateChannel,
  kDestroyChannel,
  kCreateCq,
  kDestroyCq,
  kCreateSrq,
  kModifySrq,
  kQuerySrq,
  kDestroySrq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kDestroyQp,
  kCreateAh,
  kDestroyAh,
  kResolveGid,        // the Ethernet address of a GID (ibv_create_ah and friends)
  kMapRings,          // the memory that rings of queue pairs lie in
  kOpenPaging = 100,  // the two sockets of paging_records.h, before the first on-demand region
  kAdviseMr,
  kModifyCq = 150,
  kResizeCq,
  kImportPd,  // of the session whose ImportToken came with kOpenDevice
  kImportMr,
  kOwnErrors,  // why this session's completions failed
  kResizeSrq,
  kAttachMulticast = 160,
  kDetachMulticast,
  kOpenXrcd = 170,
  kCloseXrcd,
  kOpenQp,               // another session's XRC receiving queue pair
  kCmOpenChannel = 200,  // the connection manager, for librdmacm: cm_records.h
  kCmCloseChannel,
  kCmCommand,
  kAllocMw = 300,  // records: memory_records.h
  kDeallocMw,
  kAllocNullMr,
  kAllocDm,
  kFreeDm,
  kRegDmMr,
  kImportDm,  // import_records.h
  // For the uroce tool and the console. Reports are JSON, in one or more replies (kReplyMore).
  kStatus = 1000,
  kOdpStatus,
  kChooseNumbers,
  kErrors,
  kChangeAddress,  // address_records.h
  kLimits,
  kObjects,       // the status with each session's objects one by one
  kCapture,       // capture_records.h
  kHistory,       // samples of the counters of the last minutes
  kDeviceStatus,  // the status without programs, for those that ask again and again
};

struct RequestHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t version = 0;  // kVersion
  Command command{};
  std::uint32_t sequence = 0;
  std::uint32_t length = 0;  // bytes of the whole record
  std::uint32_t descriptor_count = 0;
};
static_assert(sizeof(RequestHeader) == 24);

enum ReplyFlags : std::uint32_t { kReplyMore = 1U };  // another reply of the same sequence follows

struct ReplyHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t version = 0;
  std::uint32_t sequence = 0;
  std::int32_t error = 0;  // 0, or an errno value; then `message` says why
  std::uint32_t length = 0;
  std::uint32_t descriptor_count = 0;
  std::uint32_t flags = 0;
  std::uint32_t reserved = 0;
  char message[kMessageMax] = {};
};
static_assert(sizeof(ReplyHeader) == 272);

// A reply that carries a handle, and a request that names one object.
struct HandleReply {
  ReplyHeader header;
  std::uint32_t handle;
  std::uint32_t reserved;
};
static_assert(sizeof(HandleReply) == 280);
// Chooses the numbers of the session's next queue pair and next memory region; 0: chosen by the
// daemon.
struct ChooseNumbersRequest {
  RequestHeader header;
  std::uint32_t qpn;
  std::uint32_t key;
};
static_assert(sizeof(ChooseNumbersRequest) == 32);

struct HandleRequest {
  RequestHeader header;
  std::uint32_t handle;
  std::uint32_t reserved;
};
static_assert(sizeof(HandleRequest) == 32);

// Descriptor: a memfd sealed with F_SEAL_SHRINK. Program memory that is converted lies in it, each
// conversion at a page-aligned offset of its own. Answer: HandleReply, the arena's handle.
struct ShareArenaRequest {
  RequestHeader header;
  std::uint64_t page_size;
};
static_assert(sizeof(ShareArenaRequest) == 32);

struct RegMrRequest {
  RequestHeader header;
  std::uint64_t address, length, iova;
  std::uint32_t pd;
  std::uint32_t access;  // AccessFlags
  std::uint32_t piece_count;
  std::uint32_t pieces_in_file;  // not 0: none follow, they are what the last descriptor holds
  std::uint32_t replaces;        // handle + 1 of the region whose place and keys it takes
                                 // (ibv_rereg_mr); 0: none
  std::uint32_t reserved;
  MemoryPiece pieces[];  // whole pages that cover [address, address + length), sorted, no gaps
};
static_assert(sizeof(RegMrRequest) == 72);
// IBV_ACCESS_ON_DEMAND in `access`: no pieces come; all memory: address and iova 0, length
// kImplicitLength.
struct RegMrReply {
  ReplyHeader header;
  std::uint32_t handle, lkey, rkey;
  std::uint32_t remote_pieces;  // how many are reached through /proc/PID/mem
};
static_assert(sizeof(RegMrReply) == 288);

// Answer: HandleReply with one descriptor, the read end of the channel's socket (CompletionEvent
// records).
struct CreateChannelRequest {
  RequestHeader header;
};
static_assert(sizeof(CreateChannelRequest) == 24);

enum CqFlags : std::uint32_t { kCqIgnoreOverrun = 1U };  // a completion without room is just lost
struct CreateCqRequest {
  RequestHeader header;
  std::uint64_t cookie;  // comes back in completion and async events
  std::uint32_t entries;
  std::uint32_t channel;  // handle + 1; 0: none
  std::uint32_t vector;
  std::uint32_t flags;  // CqFlags
};
static_assert(sizeof(CreateCqRequest) == 48);
// Descriptor: the memfd with CqControl at control_offset and the entries.
struct CreateCqReply {
  ReplyHeader header;
  std::uint32_t handle;
  std::uint32_t entries;
  std::uint64_t control_offset, entries_offset, memory_length;
};
static_assert(sizeof(CreateCqReply) == 304);

struct CreateSrqRequest {
  RequestHeader header;
  std::uint64_t cookie;
  std::uint32_t pd, max_wr, max_sge, limit;
  std::uint32_t type;      // enum ibv_srq_type
  std::uint32_t xrcd, cq;  // of type XRC: handles
  std::uint32_t reserved;
};
static_assert(sizeof(CreateSrqRequest) == 64);
struct CreateSrqReply {
  ReplyHeader header;
  std::uint32_t handle, srqn, max_wr, max_sge;
  RingLayout ring;
  std::uint64_t memory_length;
};
static_assert(sizeof(CreateSrqReply) == 320);

struct ModifySrqRequest {
  RequestHeader header;
  std::uint32_t handle;
  std::uint32_t mask;  // enum ibv_srq_attr_mask; the size is changed by kResizeSrq
  std::uint32_t max_wr, limit;
};
static_assert(sizeof(ModifySrqRequest) == 40);
struct QuerySrqReply {
  ReplyHeader header;
  std::uint32_t max_wr, max_sge, limit, reserved;
};
static_assert(sizeof(QuerySrqReply) == 288);

struct CreateQpRequest {
  RequestHeader header;
  std::uint64_t cookie;
  std::uint32_t type;  // enum ibv_qp_type
  std::uint32_t pd, send_cq, recv_cq;
  std::uint32_t srq;  // handle + 1; 0: none
  std::uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
  std::uint32_t signal_all;
  std::uint32_t xrcd;  // XRC receive: handle; then only this and `cookie` count
};
static_assert(sizeof(CreateQpRequest) == 80);
struct CreateQpReply {
  ReplyHeader header;
  std::uint32_t handle, qpn, worker, doorbell_slot;
  std::uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
  std::uint32_t memory;   // number of that which both rings lie in (ring_records.h)
  RingLayout send, recv;  // recv.entries 0 with a shared receive queue
};
static_assert(sizeof(CreateQpReply) == 360);

struct AddressRecord {  // struct ibv_ah_attr
  std::uint8_t dgid[16];
  std::uint32_t flow_label;
  std::uint8_t sgid_index, hop_limit, traffic_class, is_global;
  std::uint8_t sl, port, static_rate, reserved;
};
struct QpAttributesRecord {  // struct ibv_qp_attr
  std::uint32_t state, current_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qpn,
      access;
  std::uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
  std::uint32_t reserved_word;
  std::uint16_t pkey_index, alt_pkey_index;
  std::uint8_t sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
      port, timeout, retry_cnt, rnr_retry, alt_port, alt_timeout, reserved;
  AddressRecord address, alt_address;
};
struct ModifyQpRequest {
  RequestHeader header;
  std::uint32_t handle;
  std::uint32_t mask;  // enum ibv_qp_attr_mask
  QpAttributesRecord attributes;
};
static_assert(sizeof(ModifyQpRequest) == 164);
struct QueryQpReply {
  ReplyHeader header;
  QpAttributesRecord attributes;
};
static_assert(sizeof(QueryQpReply) == 404);

struct CreateAhRequest {
  RequestHeader header;
  std::uint32_t pd;
  std::uint32_t reserved;
  AddressRecord address;
};
static_assert(sizeof(CreateAhRequest) == 60);

// kResolveGid: is answered when the address is known, or with EHOSTUNREACH after a bounded time.
struct ResolveGidRequest {
  RequestHeader header;
  AddressRecord address;
};
static_assert(sizeof(ResolveGidRequest) == 52);
struct ResolveGidReply {
  ReplyHeader header;
  std::uint8_t mac[6];
  std::uint16_t vlan;
};
static_assert(sizeof(ResolveGidReply) == 280);

// kOpenPaging, a bare RequestHeader, is answered by a ReplyHeader with two descriptors: the
// program's ends of the share channel and of the invalidate channel. Once a session.

// ibv_advise_mr. Answered at once, or when the pages are there (kAdviseFlush). Errors as its manual
// page says.
enum class Advice : std::uint32_t { kPrefetch = 0, kPrefetchWrite, kPrefetchNoFault };
inline constexpr std::uint32_t kAdviseFlush = 1U;
inline constexpr std::uint32_t kAdviseSgesMax = 256;  // of one record
struct AdviseSge {                                    // struct ibv_sge
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t lkey;
};
struct AdviseMrRequest {
  RequestHeader header;
  std::uint32_t pd;
  Advice advice;
  std::uint32_t flags;
  std::uint32_t sge_count;
  AdviseSge sges[];
};
static_assert(sizeof(AdviseMrRequest) == 40);

// kAttachMulticast, kDetachMulticast: a UD queue pair and a group.
struct MulticastRequest {
  RequestHeader header;
  std::uint32_t handle;
  std::uint32_t reserved;
  std::uint8_t gid[16];
};
static_assert(sizeof(MulticastRequest) == 48);

// kStatus: each reply is a ReplyHeader and the next bytes of the JSON text; kReplyMore in all but
// the last. kListDevices, kQueryDevice, kCreateChannel and kStatus requests are a bare
// RequestHeader; what has no reply of its own is answered with a ReplyHeader.
//
// A connection that the daemon refuses (too many sessions) gets one ReplyHeader with sequence 0.

}  // namespace uroce::abi
