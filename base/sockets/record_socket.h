#pragma once

// Records with descriptors over a SOCK_SEQPACKET UNIX socket: the server's end and, for the uroce
// tool and the tests, the client's.

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/program_process.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

struct Record {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
};

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::shared_ptr<const ProgramProcess> process{};  // of those that were accepted
};

// For what is opened by the number.
[[nodiscard]] ProgramProcess process_of(const Peer& peer);

// Whether both are known to be connections of one process, which may have changed its user.
[[nodiscard]] bool is_one_process(const Peer& one, const Peer& other);

// Root and the daemon's own user, who may change what concerns everybody. Root of another user
// namespace is root there only.
[[nodiscard]] bool is_administrator(const Peer& peer);

// ENAMETOOLONG: no socket can be there.
Result<sockaddr_un> address_of(const std::string& path);
Result<UniqueFd> connect_to(const std::string& path);

// The kernel's word on who is at the other end.
Result<Peer> peer_of(int socket);
// The same, with its process.
Result<Peer> program_at(int socket);

enum class [[nodiscard]] ReceiveStatus : std::uint8_t{
    kRecord,
    kNothing,  // EAGAIN
    kClosed,
    kTooLong,             // longer than kRecordMax; it is gone
    kTooManyDescriptors,  // more than kDescriptorsMax; all are closed
    kDescriptors,         // receive_plain_record: it has some; nothing is taken
    kNoDescriptorsLeft,   // this process may have no more; a record without any
};
ReceiveStatus receive_record(int socket, Record* record);

// Takes a record only if no descriptors came with it: to receive those, also the ones that are too
// many, and to close them takes as long as their maker likes.
ReceiveStatus receive_plain_record(int socket, Record* record);
// The same in two steps, for who would rather answer before the second one: a record, also one that
// is too long, stays in the queue until it is discarded.
ReceiveStatus peek_plain_record(int socket, Record* record);
void discard_record(int socket);
// Whether the socket can be closed without closing a descriptor that somebody sent.
[[nodiscard]] bool nothing_waits(int socket);
// Whether the other end may send descriptors at all; connections have it from their listener.
// Before Linux 6.16 it always may.
void permit_descriptors(int socket, bool permitted);

enum class [[nodiscard]] Sending : std::uint8_t{kSent, kFull, kClosed};
Sending send_record(int socket, const Record& record);

}  // namespace uroce
