#pragma once

// The messages of the IB connection manager (IBTA vol. 1, 12.6) as values in host order. Layout in
// a MAD: mad_format.h; parsing and building: mad.h.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "control/cm/reject_reason.h"
#include "dataplane/wire/address.h"

namespace uroce::control::cm {

using PrivateData = std::vector<std::byte>;

// Bytes of private data in each message. It is padded with zeroes: the length isn't on the wire, so
// a receiver always gets the maximum.
inline constexpr std::size_t kReqPrivateMax = 92;
inline constexpr std::size_t kMraPrivateMax = 222;
inline constexpr std::size_t kRejPrivateMax = 148;
inline constexpr std::size_t kRepPrivateMax = 196;
inline constexpr std::size_t kRtuPrivateMax = 224;
inline constexpr std::size_t kDreqPrivateMax = 220;
inline constexpr std::size_t kDrepPrivateMax = 224;
inline constexpr std::size_t kSidrReqPrivateMax = 216;
inline constexpr std::size_t kSidrRepPrivateMax = 136;
inline constexpr std::size_t kAprPrivateMax = 148;
inline constexpr std::size_t kRejInfoMax = 72;

enum class Transport : std::uint8_t { kRc = 0, kUc = 1, kRd = 2, kXrc = 3 };
inline constexpr std::uint8_t kXrcExtended = 1;

// Enhanced connection establishment (ECE): vendor-specific options exchanged between programs.
// Passed through, as in Linux: 24 bits in fields that the specification had reserved, and the MAD's
// attribute modifier.
struct Ece {
  std::uint32_t vendor_id = 0;  // 24 bits
  std::uint32_t options = 0;
  auto operator<=>(const Ece&) const = default;
};

// A path as a REQ names it. LIDs are 0xFFFF on RoCE, as Linux has them.
struct ReqPath {
  std::uint16_t local_lid = 0xFFFF, remote_lid = 0xFFFF;
  Gid local_gid = {}, remote_gid = {};  // of the REQ's sender and of its receiver
  std::uint32_t flow_label = 0;         // 20 bits
  std::uint8_t packet_rate = 0, traffic_class = 0, hop_limit = 64, service_level = 0;
  bool subnet_local = false;
  std::uint8_t ack_timeout = 0;  // 4.096 us * 2^n
};

struct Req {
  std::uint32_t local_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;
  std::uint32_t qkey = 0, qpn = 0;
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t remote_response_timeout = 0;  // how long the receiver may take; 4.096 us * 2^n
  Transport transport = Transport::kRc;
  bool flow_control = false;
  std::uint32_t starting_psn = 0;           // that the receiver's packets start with
  std::uint8_t local_response_timeout = 0;  // how long the sender may take
  std::uint8_t retry_count = 0;
  std::uint16_t pkey = 0xFFFF;
  std::uint8_t path_mtu = 0;  // code: 3 is 1024
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0, max_cm_retries = 0;
  bool srq = false;
  std::uint8_t extended_transport = 0;   // kXrcExtended with transport 3
  ReqPath primary = {}, alternate = {};  // alternate: all zeroes if there is none
  Ece ece = {};
  PrivateData private_data = {};
};

enum class MraMessage : std::uint8_t { kReq = 0, kRep = 1, kLap = 2 };
struct Mra {
  std::uint32_t local_id = 0, remote_id = 0;
  MraMessage message = MraMessage::kReq;
  std::uint8_t service_timeout = 0;  // 4.096 us * 2^n
  PrivateData private_data = {};
};

// Which message a REJ refuses.
enum class RejMessage : std::uint8_t { kReq = 0, kRep = 1, kNone = 2 };
struct Rej {
  std::uint32_t local_id = 0, remote_id = 0;
  RejMessage message = RejMessage::kNone;
  RejectReason reason{};
  PrivateData info = {};  // additional reject information, at most kRejInfoMax bytes
  PrivateData private_data = {};
};

struct Rep {
  std::uint32_t local_id = 0, remote_id = 0;
  std::uint32_t qkey = 0, qpn = 0;
  std::uint32_t eecn = 0;  // local EE context number: an XRC target's queue pair, instead of qpn
  std::uint32_t starting_psn = 0;
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t target_ack_delay = 0, failover_accepted = 0;
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;
  bool srq = false;
  std::uint64_t ca_guid = 0;
  Ece ece = {};
  PrivateData private_data = {};
};

struct Rtu {
  std::uint32_t local_id = 0, remote_id = 0;
  PrivateData private_data = {};
};

struct Dreq {
  std::uint32_t local_id = 0, remote_id = 0, remote_qpn = 0;
  PrivateData private_data = {};
};

struct Drep {
  std::uint32_t local_id = 0, remote_id = 0;
  PrivateData private_data = {};
};

// Alternate paths aren't supported: a LAP is answered with APR status "unsupported"; only the
// fields needed for the answer are parsed.
struct Lap {
  std::uint32_t local_id = 0, remote_id = 0;
};
inline constexpr std::uint8_t kAprInvalidId = 1;
inline constexpr std::uint8_t kAprUnsupported = 2;  // alternate paths (12.6.9)
struct Apr {
  std::uint32_t local_id = 0, remote_id = 0;
  std::uint8_t status = 0;
  PrivateData private_data = {};
};

struct SidrReq {
  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0xFFFF;
  std::uint64_t service_id = 0;
  PrivateData private_data = {};
};

enum class SidrStatus : std::uint8_t {
  kValid = 0,
  kUnsupported = 1,  // no such service
  kReject = 2,
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};
struct SidrRep {
  std::uint32_t request_id = 0;
  SidrStatus status = SidrStatus::kValid;
  std::uint32_t qpn = 0, qkey = 0;
  std::uint64_t service_id = 0;
  PrivateData private_data = {};
};

using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, Lap, Apr, SidrReq, SidrRep>;

}  // namespace uroce::control::cm
