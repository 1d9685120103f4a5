// A small message server with the manners of Lustre's LNet (o2iblnd), from user space: requests
// with private data, refusal of a version and another try, queues as deep as the device allows,
// credits, and transfers of 1 MiB in 256 fragments of 4 KiB through a pool of registrations.
//
//   message_server [-b ADDRESS] [-p PORT] [-c CONNECTIONS]      serves so many connections
//   message_server -s SERVER [-p PORT] [-n TRANSFERS]           sends and has it checked

#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "apps/examples/message_peer.h"
#include "apps/examples/region_pool.h"

namespace {

constexpr int kResolveMs = 2000;
constexpr std::uint32_t kSendsWished = 65'536;  // more than most devices have: see Peer
constexpr std::size_t kPoolSize = 24, kPoolWatermark = 8;
constexpr std::uint32_t kVersionOfTomorrow = kVersion + 1;

struct Options {
  std::string server, bind = "0.0.0.0", port = "9988";
  int connections = 1;
  std::uint64_t transfers = 50;
};

using Buffer = std::vector<std::byte>;

sockaddr_storage address_of(const std::string& host, const std::string& port) {
  addrinfo* found = nullptr;
  check(getaddrinfo(host.c_str(), port.c_str(), nullptr, &found) == 0, "getaddrinfo");
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

sockaddr* plain(sockaddr_storage* address) { return reinterpret_cast<sockaddr*>(address); }

std::byte content(std::uint64_t sequence, std::size_t offset) {
  return static_cast<std::byte>((sequence * 131 + offset * 7 + offset / kFragmentBytes) & 0xFFU);
}

rdma_conn_param parameters(const Hello& hello) {
  rdma_conn_param to{};
  to.private_data = &hello;
  to.private_data_len = sizeof(hello);
  to.responder_resources = to.initiator_depth = 1;
  to.retry_count = to.rnr_retry_count = 7;
  return to;
}

Hello hello_in(const rdma_cm_event& event) {
  Hello hello{.magic = 0};
  if (event.param.conn.private_data_len >= sizeof(hello)) {
    std::memcpy(&hello, event.param.conn.private_data, sizeof(hello));
  }
  return hello;
}

// Where the peer shall write: the fragments lie in reverse order, since their order isn't
// guaranteed.
Message sink_of(const Message& put, Buffer& buffer, const ibv_mr& region) {
  Message sink{};
  sink.kind = Kind::kSink;
  sink.sequence = put.sequence;
  sink.fragment_count = put.bytes / kFragmentBytes;
  for (std::uint32_t i = 0; i < sink.fragment_count; ++i) {
    const std::size_t place = sink.fragment_count - 1 - i;
    sink.fragments[i] = {reinterpret_cast<std::uint64_t>(buffer.data() + place * kFragmentBytes),
                         region.rkey, kFragmentBytes};
  }
  return sink;
}

bool is_right(const Message& written, const Buffer& buffer) {
  for (std::size_t offset = 0; offset < kTransferBytes; ++offset) {
    const std::size_t fragment = kFragmentsMax - 1 - offset / kFragmentBytes;
    if (buffer[fragment * kFragmentBytes + offset % kFragmentBytes] !=
        content(written.sequence, offset)) {
      return false;
    }
  }
  return true;
}

struct Sink {
  Buffer buffer = Buffer(kTransferBytes);
  ibv_mr* region = nullptr;
};

// Serves one connection to its end.
void serve(Peer& peer) {
  RegionPool pool(peer.id()->pd, kPoolSize, kPoolWatermark);
  std::map<std::uint64_t, Sink> sinks;
  std::uint64_t taken = 0;
  const auto take = [&](const Message& message) {
    if (message.kind == Kind::kPut) {
      check(message.bytes == kTransferBytes, "a transfer of another size");
      Sink& sink = sinks[message.sequence];
      sink.region = pool.map(sink.buffer.data(), sink.buffer.size());
      check(sink.region != nullptr, "the pool is empty");
      peer.send(sink_of(message, sink.buffer, *sink.region));
      return;
    }
    const auto at = sinks.find(message.sequence);
    check(at != sinks.end() && message.kind == Kind::kWritten, "a message out of turn");
    check(is_right(message, at->second.buffer), "the content is wrong");
    pool.unmap(at->second.region);
    sinks.erase(at);
    ++taken;
    Message answer{};
    answer.kind = Kind::kTaken;
    answer.sequence = message.sequence;
    peer.send(answer);
  };
  while (peer.poll(take)) {
  }
  std::printf("took %llu transfers, %zu flushes\n", static_cast<unsigned long long>(taken),
              pool.flushes());
}

// A request of another version is refused with ours; false.
bool accept_one(rdma_event_channel* channel) {
  rdma_cm_event* request = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_id* id = request->id;
  const Hello theirs = hello_in(*request);
  rdma_ack_cm_event(request);
  if (theirs.magic != kMagic || theirs.version != kVersion) {
    const Hello ours;
    check(rdma_reject(id, &ours, sizeof(ours)) == 0, "rdma_reject");
    rdma_destroy_id(id);
    return false;
  }
  {
    Peer peer(id, kSendsWished);
    peer.meet(theirs);
    const Hello ours = peer.hello();
    rdma_conn_param answer = parameters(ours);
    check(rdma_accept(id, &answer) == 0, "rdma_accept");
    rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_ESTABLISHED));
    serve(peer);
    rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED));
    rdma_disconnect(id);
  }
  rdma_destroy_id(id);
  return true;
}

void run_server(const Options& options) {
  rdma_event_channel* channel = rdma_create_event_channel();
  check(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* listening = nullptr;
  check(rdma_create_id(channel, &listening, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_storage address = address_of(options.bind, options.port);
  check(rdma_bind_addr(listening, plain(&address)) == 0, "rdma_bind_addr");
  check(rdma_listen(listening, 0) == 0, "rdma_listen");
  for (int served = 0; served < options.connections;) {
    served += accept_one(channel) ? 1 : 0;
  }
  rdma_destroy_id(listening);
  rdma_destroy_event_channel(channel);
}

// An id with a route to the server.
rdma_cm_id* reach(rdma_event_channel* channel, const Options& options) {
  rdma_cm_id* id = nullptr;
  check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_storage address = address_of(options.server, options.port);
  check(rdma_resolve_addr(id, nullptr, plain(&address), kResolveMs) == 0, "rdma_resolve_addr");
  rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
  check(rdma_resolve_route(id, kResolveMs) == 0, "rdma_resolve_route");
  rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
  return id;
}

struct Source {
  Buffer buffer = Buffer(kTransferBytes);
  ibv_mr* region = nullptr;
};

void put(Peer& peer, RegionPool& pool, std::uint64_t sequence, Source* source) {
  for (std::size_t offset = 0; offset < kTransferBytes; ++offset) {
    source->buffer[offset] = content(sequence, offset);
  }
  source->region = pool.map(source->buffer.data(), source->buffer.size());
  check(source->region != nullptr, "the pool is empty");
  Message message{};
  message.kind = Kind::kPut;
  message.sequence = sequence;
  message.bytes = kTransferBytes;
  peer.send(message);
}

void transfer(Peer& peer, std::uint64_t count) {
  RegionPool pool(peer.id()->pd, kPoolSize, kPoolWatermark);
  std::map<std::uint64_t, Source> sources;
  std::uint64_t next = 0, done = 0;
  const auto take = [&](const Message& message) {
    const auto at = sources.find(message.sequence);
    check(at != sources.end(), "a message out of turn");
    if (message.kind == Kind::kSink) {
      peer.write(at->second.buffer.data(), at->second.region->lkey, message);
      Message written{};
      written.kind = Kind::kWritten;
      written.sequence = message.sequence;
      peer.send(written);
    } else {
      pool.unmap(at->second.region);
      sources.erase(at);
      ++done;
    }
  };
  while (done < count) {
    if (next < count && sources.size() < peer.window()) {
      put(peer, pool, next, &sources[next]);
      ++next;
    }
    check(peer.poll(take), "the server left");
  }
  std::printf("sent %llu transfers of %u bytes, %u at once, %zu flushes\n",
              static_cast<unsigned long long>(count), kTransferBytes, peer.window(),
              pool.flushes());
}

// Connects with this version. 0, or the version that the server wants.
std::uint32_t try_version(rdma_event_channel* channel, const Options& options,
                          std::uint32_t version) {
  rdma_cm_id* id = reach(channel, options);
  std::uint32_t wanted = 0;
  {
    Peer peer(id, kSendsWished);
    Hello ours = peer.hello();
    ours.version = version;
    rdma_conn_param request = parameters(ours);
    check(rdma_connect(id, &request) == 0, "rdma_connect");
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    const Hello theirs = hello_in(*event);
    const bool refused = event->event == RDMA_CM_EVENT_REJECTED;
    check(theirs.magic == kMagic && (refused || event->event == RDMA_CM_EVENT_ESTABLISHED),
          rdma_event_str(event->event));
    rdma_ack_cm_event(event);
    if (refused) {
      wanted = theirs.version;
      std::printf("version %u was refused, the server speaks %u\n", version, wanted);
    } else {
      peer.meet(theirs);
      transfer(peer, options.transfers);
      check(rdma_disconnect(id) == 0, "rdma_disconnect");
      rdma_ack_cm_event(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED));
    }
  }
  rdma_destroy_id(id);
  return wanted;
}

void run_client(const Options& options) {
  rdma_event_channel* channel = rdma_create_event_channel();
  check(channel != nullptr, "rdma_create_event_channel");
  const std::uint32_t wanted = try_version(channel, options, kVersionOfTomorrow);
  check(wanted == kVersion && try_version(channel, options, wanted) == 0,
        "no version that both speak");
  rdma_destroy_event_channel(channel);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int flag = 0; (flag = getopt(argc, argv, "s:b:p:c:n:")) != -1;) {
    switch (flag) {
      case 's':
        options.server = optarg;
        break;
      case 'b':
        options.bind = optarg;
        break;
      case 'p':
        options.port = optarg;
        break;
      case 'c':
        options.connections = std::atoi(optarg);
        break;
      case 'n':
        options.transfers = std::strtoull(optarg, nullptr, 10);
        break;
      default:
        std::fprintf(stderr, "usage: message_server [-s SERVER] [-b ADDRESS] [-p PORT] ...\n");
        return 2;
    }
  }
  options.server.empty() ? run_server(options) : run_client(options);
  return 0;
}
