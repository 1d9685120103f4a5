#pragma once

// Records with descriptors over a SOCK_SEQPACKET UNIX socket: the server's end and, for the uroce
// tool and the tests, the client's.

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

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
};

// Root and the daemon's own user, who may change what concerns everybody.
[[nodiscard]] bool is_administrator(const Peer& peer);

// ENAMETOOLONG: no socket can be there.
Result<sockaddr_un> address_of(const std::string& path);
Result<UniqueFd> connect_to(const std::string& path);

// The kernel's word on who is at the other end.
Result<Peer> peer_of(int socket);

enum class [[nodiscard]] Receipt : std::uint8_t{
    kRecord,
    kNothing,  // EAGAIN
    kClosed,
    kTooLong,             // longer than kRecordMax; it is gone
    kTooManyDescriptors,  // more than kDescriptorsMax; all are closed
};
Receipt receive_record(int socket, Record* record);

enum class [[nodiscard]] Sending : std::uint8_t{kSent, kFull, kClosed};
Sending send_record(int socket, const Record& record);

}  // namespace uroce
