#include "control/ip/kernel/interface_addresses.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system_error.h"
#include "base/unique_fd.h"
#include "control/ip/limits.h"

namespace uroce::control {
namespace {

constexpr std::size_t kReplyBytesMax = 32'768;  // of one message from the kernel
constexpr int kRepliesMax = 256;                // of a listing
constexpr int kDumpsMax = 8;                    // if addresses change during each

struct AddressListing {
  nlmsghdr header{};
  ifaddrmsg address{};
};

// Reads one RTM_NEWADDR. False: tentative, or not an interface's address.
bool read_address(const nlmsghdr& message, IpPrefix* found) {
  const auto* about = static_cast<const ifaddrmsg*>(NLMSG_DATA(&message));
  std::uint32_t flags = about->ifa_flags;
  const bool ipv4 = about->ifa_family == AF_INET;
  const std::size_t skip = ipv4 ? kIpv4MappedPrefix.size() : 0;
  bool has_address = false;
  auto length = static_cast<int>(IFA_PAYLOAD(&message));
  for (const rtattr* at = IFA_RTA(about); RTA_OK(at, length); at = RTA_NEXT(at, length)) {
    // On a point-to-point link IFA_ADDRESS is the other end's.
    const bool wanted = at->rta_type == IFA_LOCAL || (at->rta_type == IFA_ADDRESS && !has_address);
    if (wanted && RTA_PAYLOAD(at) == found->address.bytes.size() - skip) {
      found->address = ipv4 ? mapped_gid(in_addr{}) : Gid{};
      std::memcpy(&found->address.bytes[skip], RTA_DATA(at), RTA_PAYLOAD(at));
      has_address = true;
    } else if (at->rta_type == IFA_FLAGS && RTA_PAYLOAD(at) == sizeof(flags)) {
      std::memcpy(&flags, RTA_DATA(at), sizeof(flags));
    }
  }
  found->length = about->ifa_prefixlen + static_cast<std::uint32_t>(8 * skip);
  return has_address && (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0;
}

// What is left to be read of a dump.
enum class Rest { kMore, kNothing, kUnknown };  // kUnknown: it failed, with errno set

// The end of a dump has 0 or a negative errno, as an error message has.
Rest end_of(const nlmsghdr& message) {
  std::int32_t error = 0;
  if (NLMSG_PAYLOAD(&message, 0) >= sizeof(error)) {
    std::memcpy(&error, NLMSG_DATA(&message), sizeof(error));
  }
  const bool failed = error != 0 || message.nlmsg_type == NLMSG_ERROR;
  errno = error != 0 ? -error : EIO;
  return failed ? Rest::kUnknown : Rest::kNothing;
}

// Reads one datagram of the dump.
Rest read_reply(const std::byte* bytes, std::size_t size, std::uint32_t interface,
                std::vector<IpPrefix>* all) {
  auto left = static_cast<std::uint32_t>(size);
  for (const auto* message = reinterpret_cast<const nlmsghdr*>(bytes); NLMSG_OK(message, left);
       message = NLMSG_NEXT(message, left)) {
    if ((message->nlmsg_flags & NLM_F_DUMP_INTR) != 0) {
      errno = EINTR;  // addresses changed meanwhile, and some may be missing
      return Rest::kUnknown;
    }
    if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
      return end_of(*message);
    }
    IpPrefix found;
    if (message->nlmsg_type == RTM_NEWADDR &&
        static_cast<const ifaddrmsg*>(NLMSG_DATA(message))->ifa_index == interface &&
        read_address(*message, &found)) {
      all->push_back(found);
    }
  }
  return Rest::kMore;
}

// One dump. An errno.
int list_addresses(std::uint32_t interface, std::vector<IpPrefix>* all) {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  AddressListing request;
  request.header = {.nlmsg_len = sizeof(request),
                    .nlmsg_type = RTM_GETADDR,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = 1,
                    .nlmsg_pid = 0};
  if (!socket.valid() || ::send(socket.get(), &request, sizeof(request), 0) < 0) {
    return errno;
  }
  std::vector<std::byte> reply(kReplyBytesMax);
  for (int i = 0; i < kRepliesMax; ++i) {
    const ssize_t size = ::recv(socket.get(), reply.data(), reply.size(), 0);
    if (size <= 0) {
      return size < 0 ? errno : EIO;
    }
    const Rest rest = read_reply(reply.data(), static_cast<std::size_t>(size), interface, all);
    if (rest != Rest::kMore) {
      return rest == Rest::kNothing ? 0 : errno;
    }
  }
  return EMSGSIZE;
}

int rank(const IpPrefix& prefix) {
  return prefix.address.is_ipv4() ? 0 : is_link_local(prefix.address) ? 2 : 1;
}

}  // namespace

Result<std::vector<IpPrefix>> interface_addresses(const std::string& name) {
  const std::uint32_t interface = ::if_nametoindex(name.c_str());
  if (interface == 0 && errno != ENODEV) {
    return system_error("can't look for network interfaces");
  }
  if (interface == 0) {
    return Error{
        ENODEV, "there is no network interface " + name + " here; `ip link` lists those there are"};
  }
  std::vector<IpPrefix> all;
  int error = EINTR;
  for (int tries = 0; tries < kDumpsMax && error == EINTR; ++tries) {
    all.clear();
    error = list_addresses(interface, &all);
  }
  if (error != 0) {
    errno = error;
    return system_error("can't ask the kernel for the addresses of interfaces");
  }
  if (all.empty()) {
    return Error{EADDRNOTAVAIL,
                 "the interface " + name + " has no address yet; `ip address` shows"};
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const IpPrefix& a, const IpPrefix& b) { return rank(a) < rank(b); });
  all.resize(std::min<std::size_t>(all.size(), kGidsMax - 1));
  return all;
}

}  // namespace uroce::control
