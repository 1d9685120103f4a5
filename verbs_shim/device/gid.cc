// The GID table: the addresses of the port, one per entry; some entries are empty.

#include <algorithm>
#include <cstring>

#include "verbs_shim/objects/newer_verbs.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {
namespace {

// The numbers that sysfs shows (ibv_query_gid_type).
constexpr unsigned kSysfsIbOrRoceV1 = 0;
constexpr unsigned kSysfsRoceV2 = 1;

int ask_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
            abi::QueryGidReply& reply) {
  abi::QueryGidRequest request{};
  request.port = port;
  request.index = index;
  return of(context)->client.call("ibv_query_gid", abi::Command::kQueryGid, request, reply);
}

bool is_empty(const abi::QueryGidReply& reply) {
  return std::all_of(std::begin(reply.gid), std::end(reply.gid),
                     [](std::uint8_t byte) { return byte == 0; });
}

ibv_gid_entry to_entry(const abi::QueryGidReply& reply, std::uint32_t port, std::uint32_t index) {
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, reply.gid, sizeof(entry.gid.raw));
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = reply.type;
  entry.ndev_ifindex = reply.netdev_index;
  return entry;
}

// The number of entries, or a negative errno value.
int gid_count(ibv_context* context, std::uint32_t port) {
  abi::QueryPortRequest request{};
  request.port = port;
  abi::QueryPortReply reply{};
  const int error =
      of(context)->client.call("ibv_query_gid_table", abi::Command::kQueryPort, request, reply);
  return error != 0 ? -error : static_cast<int>(reply.gid_count);
}

}  // namespace

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type) {
  abi::QueryGidReply reply{};
  const int error = ask_gid(context, port, index, reply);
  if (error != 0) {
    errno = error;
    return -1;
  }
  *type = reply.type == IBV_GID_TYPE_ROCE_V2 ? kSysfsRoceV2 : kSysfsIbOrRoceV1;
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  abi::QueryGidReply reply{};
  const int error = ask_gid(context, port, static_cast<std::uint32_t>(index), reply);
  if (error != 0) {
    errno = error;
    return -1;
  }
  std::memcpy(gid->raw, reply.gid, sizeof(gid->raw));
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_size) {
  if (flags != 0) {
    return EOPNOTSUPP;
  }
  abi::QueryGidReply reply{};
  const int error = ask_gid(context, port, index, reply);
  if (error != 0) {
    return error;
  }
  if (is_empty(reply)) {
    return ENODATA;
  }
  const ibv_gid_entry full = to_entry(reply, port, index);
  std::memset(static_cast<void*>(entry), 0, entry_size);
  std::memcpy(static_cast<void*>(entry), &full, std::min(entry_size, sizeof(full)));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t entries_max,
                             uint32_t flags, size_t entry_size) {
  if (flags != 0) {
    return -EOPNOTSUPP;
  }
  std::size_t filled = 0;
  auto* out = reinterpret_cast<char*>(entries);
  for (std::uint32_t port = 1; port <= of(context)->ports; ++port) {
    const int count = gid_count(context, port);
    if (count < 0) {
      return count;
    }
    for (int index = 0; index < count; ++index) {
      abi::QueryGidReply reply{};
      const int error = ask_gid(context, port, static_cast<std::uint32_t>(index), reply);
      if (error != 0) {
        return -error;
      }
      if (is_empty(reply)) {
        continue;
      }
      if (filled == entries_max) {
        return -EINVAL;
      }
      const ibv_gid_entry full = to_entry(reply, port, static_cast<std::uint32_t>(index));
      std::memset(out, 0, entry_size);
      std::memcpy(out, &full, std::min(entry_size, sizeof(full)));
      out += entry_size;
      ++filled;
    }
  }
  return static_cast<ssize_t>(filled);
}
}
