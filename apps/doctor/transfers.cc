#include "apps/doctor/transfers.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <system_error>

#include "base/ipv4_mapped.h"

namespace uroce::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPacketBytesMax = 4'096;  // of payload, whatever the path MTU
constexpr int kSingle = 50;                       // transfers one by one
constexpr int kDeep = 16;                         // at a time
constexpr double kRateSeconds = 0.2;
constexpr auto kTimeout = std::chrono::seconds(20);

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// One end of the transfers: posts and waits.
class TransferRunner {
 public:
  TransferRunner(integrity::Card& card, std::uint32_t bytes)
      : card_(card), end_(card.endpoint(0)), bytes_(bytes) {}

  // Empty, or why it failed.
  std::string post(ibv_wr_opcode opcode) {
    const bool write = opcode == IBV_WR_RDMA_WRITE;
    integrity::Arena& arena = write ? *end_.source : *end_.sink;
    ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(arena.data()),
                .length = bytes_,
                .lkey = arena.mr()->lkey};
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = end_.theirs.region;
    request.wr.rdma.rkey = end_.theirs.rkey;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(end_.qp, &request, &bad);
    return error == 0 ? "" : "posting failed: " + std::generic_category().message(error);
  }

  std::string wait() {
    ibv_wc completion{};
    const auto begun = Clock::now();
    int found = 0;
    while ((found = ibv_poll_cq(card_.polled, 1, &completion)) == 0) {
      if (Clock::now() - begun > kTimeout) {
        return "no completion for 20 s";
      }
    }
    if (found < 0) {
      return "polling failed";
    }
    return completion.status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(completion.status);
  }

  std::string one(ibv_wr_opcode opcode) {
    const std::string failure = post(opcode);
    return failure.empty() ? wait() : failure;
  }

  // The median of several, one by one.
  std::string median(ibv_wr_opcode opcode, double* seconds) {
    std::vector<double> times;
    for (int i = 0; i < kSingle; ++i) {
      const auto begun = Clock::now();
      if (std::string failure = one(opcode); !failure.empty()) {
        return failure;
      }
      times.push_back(seconds_since(begun));
    }
    std::nth_element(times.begin(), times.begin() + kSingle / 2, times.end());
    *seconds = times[kSingle / 2];
    return {};
  }

  std::string rate(double* gigabits_per_second) {
    const auto begun = Clock::now();
    std::uint64_t done = 0;
    int outstanding = 0;
    while (outstanding > 0 || seconds_since(begun) < kRateSeconds) {
      const bool more = seconds_since(begun) < kRateSeconds && outstanding < kDeep;
      std::string failure = more ? post(IBV_WR_RDMA_WRITE) : wait();
      if (!failure.empty()) {
        return failure;
      }
      outstanding += more ? 1 : -1;
      done += more ? 0 : 1;
    }
    *gigabits_per_second = static_cast<double>(done * bytes_) * 8 / seconds_since(begun) / 1e9;
    return {};
  }

 private:
  integrity::Card& card_;
  integrity::Endpoint& end_;
  const std::uint32_t bytes_;
};

TransferResult transfer(integrity::Card& card, std::uint32_t bytes) {
  TransferResult result{.bytes = bytes, .failure = {}};
  integrity::Endpoint& end = card.endpoint(0);
  std::mt19937 random(bytes);
  std::generate_n(end.source->data(), bytes, [&] { return static_cast<std::uint8_t>(random()); });
  std::memset(end.sink->data(), 0, bytes);
  TransferRunner mover(card, bytes);
  result.failure = mover.median(IBV_WR_RDMA_WRITE, &result.write_seconds);
  if (result.failure.empty()) {
    result.failure = mover.median(IBV_WR_RDMA_READ, &result.read_seconds);
  }
  if (result.failure.empty()) {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      result.wrong_bytes += end.source->data()[i] != end.sink->data()[i] ? 1 : 0;
    }
    result.failure = mover.rate(&result.gigabits_per_second);
  }
  return result;
}

}  // namespace

std::uint32_t path_mtu_to(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "4791", &hints, &found) != 0) {
    return 0;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int mtu = 0;
  socklen_t length = sizeof(mtu);
  const bool ipv4 = found->ai_family == AF_INET;
  const bool known = socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                     ::getsockopt(socket, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
                                  ipv4 ? IP_MTU : IPV6_MTU, &mtu, &length) == 0;
  if (socket >= 0) {
    ::close(socket);
  }
  return known && mtu > 0 ? static_cast<std::uint32_t>(mtu) : 0;
}

namespace {

bool is_none(const ibv_gid& gid) {
  return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0;
}

// Why two such addresses can't be connected; empty: they can.
std::string why_not(const ibv_gid& mine, const ibv_gid& theirs) {
  if (is_none(mine)) {
    return "the GID index has no address at this end: name one that has by --gid-index (`uroce "
           "doctor` lists them)";
  }
  if (is_none(theirs)) {
    return "the GID index has no address at the peer: name one that has by --gid-index there "
           "(`uroce doctor` lists them)";
  }
  if (is_ipv4_mapped(mine.raw) != is_ipv4_mapped(theirs.raw)) {
    const std::string families =
        is_ipv4_mapped(mine.raw) ? "IPv4 and the peer's is IPv6" : "IPv6 and the peer's is IPv4";
    return "the address at this end is " + families +
           ": name addresses of one kind by --gid-index (`uroce doctor` lists them)";
  }
  return {};
}

}  // namespace

std::string meet(const integrity::Link& link, integrity::Card& card) {
  integrity::Endpoint& end = card.endpoint(0);
  // The largest packets that both ends believe in: Card gives each queue pair another size.
  ibv_port_attr port{};
  if (ibv_query_port(end.qp->context, 1, &port) != 0) {
    integrity::die("ibv_query_port");
  }
  end.mine.mtu = port.active_mtu;
  if (!link.exchange(end.mine, end.theirs)) {
    integrity::die("exchanging addresses with the peer");
  }
  if (std::string why = why_not(end.mine.gid, end.theirs.gid); !why.empty()) {
    return why;  // the peer finds the same
  }
  card.connect(0);
  char ready = 0;
  if (!link.exchange('r', ready)) {
    integrity::die("waiting for the peer");
  }
  return {};
}

std::vector<TransferResult> transfer_all(integrity::Card& card, Progress& progress) {
  std::vector<TransferResult> results;
  progress.begin(std::size(kTransferSizes));
  for (const std::uint32_t bytes : kTransferSizes) {
    progress.at(results.size());
    results.push_back(transfer(card, bytes));
    if (!results.back().failure.empty()) {
      break;
    }
  }
  return results;
}

std::string advice(const std::vector<TransferResult>& results, const PathFacts& path) {
  const TransferResult& last = results.back();
  if (std::any_of(results.begin(), results.end(),
                  [](const TransferResult& result) { return result.wrong_bytes != 0; })) {
    return "bytes change on the path although the checksums are right: look for what rewrites "
           "packets (an offload, a tunnel, a faulty card), and report it to uroce's authors";
  }
  if (last.failure.empty()) {
    return {};
  }
  if (!path.loopback.empty()) {
    return path.loopback +
           " is a loopback, which reaches programs of its own daemon only: let both ends use one "
           "daemon, or give uroced a port with a wire (--port udp)";
  }
  if (results.size() == 1) {
    return "TCP reaches the peer and RDMA doesn't: let UDP port 4791 through every firewall "
           "between the two, and see that the GID's address is one that the peer can reach "
           "(--gid-index): not behind address translation (NAT, published ports of a container), "
           "which RoCE doesn't pass";
  }
  const std::uint32_t whole = results[results.size() - 2].bytes;
  if (whole >= kPacketBytesMax) {  // packets were as long as they become
    return "messages of " + std::to_string(whole) +
           " bytes arrive, then no more: check whether the peer still runs, and what `uroce "
           "errors` reports at both ends";
  }
  return "messages of " + std::to_string(whole) +
         " bytes arrive and larger ones don't: a link on the path has a smaller MTU than both "
         "ports" +
         (path.path_mtu != 0 ? " (here packets have " + std::to_string(path.path_mtu) + " bytes)"
                             : "") +
         "; give both ports the smallest MTU of the path (--mtu)";
}

}  // namespace uroce::doctor
