#pragma once

// Control's records of a session's objects. An object with a use count above zero can't be
// destroyed: EBUSY, as in Linux.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "abi/command_records.h"
#include "base/unique_fd.h"
#include "control/sessions/doorbell_slots.h"
#include "control/sessions/number_pool.h"
#include "control/sessions/ring_arena.h"
#include "control/sessions/sealed_memory.h"
#include "control/sessions/xrc.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/queues/completion_queue.h"
#include "dataplane/qp/queues/receive_queue.h"
#include "dataplane/wire/path.h"
#include "mmu/region.h"
#include "shares/account.h"
#include "shares/locked_memory.h"

namespace uroce::control {

struct ProtectionDomain {
  PdId id = 0;
  std::uint32_t users = 0;
  Charge charge;
};

// Daemon memory that programs use as device memory (ibv_dm).
struct DeviceMemory {
  std::shared_ptr<SealedMemory> memory;  // shared with regions
  std::uint64_t length = 0;
  std::uint32_t users = 0;
  std::shared_ptr<Charge> charge;  // to the session that created it, until the last handle is gone
};

struct MemoryRegion {
  std::uint32_t key = 0;
  ProtectionDomain* pd = nullptr;
  std::uint64_t length = 0;
  DeviceMemory* dm = nullptr;  // the device memory that the region is in, if any
  bool on_demand = false;      // a range of the session's mirror
  Charge charge;
  LockedCharge locked;  // for the program's pinned memory; empty with on-demand paging
};

struct MemoryWindow {
  std::uint32_t key = 0;  // the first key: the tag changes with each bind
  ProtectionDomain* pd = nullptr;
  Charge charge;
};

struct Channel {
  UniqueFd write_end;  // O_NONBLOCK; the program has the other end
  std::uint32_t users = 0;
  Charge charge;
};

struct CqObject {
  PooledNumber<NumberPool> id;  // daemon-wide
  std::uint64_t cookie = 0;
  std::uint32_t entry_count = 0;
  SealedMemory memory;        // ring control; also the entries, until it is resized
  SealedMemory entries;       // separate once it has been resized
  SealedMemory next_entries;  // during a resize that isn't committed yet
  std::uint32_t next_entry_count = 0;
  std::unique_ptr<CompletionQueue> queue;
  Channel* channel = nullptr;
  std::uint32_t users = 0;
  Charge charge;
};

struct SrqObject {
  PooledNumber<NumberPool> id;  // daemon-wide: the SRQ number
  std::uint64_t cookie = 0;
  SealedMemory memory;        // as for a completion queue
  SealedMemory entries;       // separate once it has been resized
  SealedMemory next_entries;  // during a resize that isn't committed yet
  std::uint32_t next_max_wr = 0;
  std::unique_ptr<ReceiveQueue> queue;
  ProtectionDomain* pd = nullptr;
  Xrcd* xrcd = nullptr;    // type XRC
  CqObject* cq = nullptr;  // type XRC
  std::uint32_t max_wr = 0, max_sge = 0;
  std::uint32_t users = 0;
  Charge charge;
};

struct QpObject {
  PooledNumber<NumberPool> qpn;      // XRC receive: in `target`
  PooledNumber<DoorbellSlots> slot;  // XRC receive: none
  std::uint64_t cookie = 0;
  RingArena::Rings rings;
  std::unique_ptr<ReceiveQueue> receive_queue;  // nullptr if it uses an SRQ
  std::shared_ptr<Qp> qp;
  std::shared_ptr<XrcTarget> target;  // XRC receive: the queue pair of which this is a handle
  Xrcd* xrcd = nullptr;               // XRC receive
  ProtectionDomain* pd = nullptr;
  CqObject* send_cq = nullptr;
  CqObject* recv_cq = nullptr;
  SrqObject* srq = nullptr;
  abi::QpAttributesRecord attributes{};  // as last set by the program
  std::optional<Path> path;              // set with the address vector
  std::set<Gid> groups{};                // multicast
  Charge charge;                         // includes the worker's copies of its send queue
};

struct AddressHandle {
  ProtectionDomain* pd = nullptr;
  Path path;
  Charge charge;
};

}  // namespace uroce::control
