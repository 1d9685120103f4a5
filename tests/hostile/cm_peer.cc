// Both ends of librdmacm connections.
//
//   cm_peer listen ADDRESS PORT [MS]   accepts all requests, until it is ended; each takes it MS
//                                      milliseconds
//   cm_peer connect ADDRESS PORT N     makes N connections, one after the other, and prints as a
//                                      line of JSON how many milliseconds each took
//   cm_peer withdraw ADDRESS PORT      requests connections and withdraws each request at once

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBacklog = 1024;
constexpr int kResolveMs = 5000;
constexpr unsigned kQpnMask = 0xFF'FFFF;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in address_of(const char* address, const char* port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
    give_up(address);
  }
  return to;
}

bool make_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr wanted{};
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  return rdma_create_qp(id, nullptr, &wanted) == 0;
}

rdma_cm_id* next_event(rdma_event_channel* channel, rdma_cm_event_type* type) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) {
    give_up("rdma_get_cm_event");
  }
  rdma_cm_id* const id = event->id;
  *type = event->event;
  rdma_ack_cm_event(event);
  return id;
}

void end(rdma_cm_id* id) {
  if (id->qp != nullptr) {
    rdma_destroy_qp(id);
  }
  rdma_destroy_id(id);
}

[[noreturn]] void listen(sockaddr_in at, std::chrono::milliseconds time_for_each) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  if (channel == nullptr || rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&at)) != 0 ||
      rdma_listen(listener, kBacklog) != 0) {
    give_up("can't listen");
  }
  std::puts("listening");
  std::fflush(stdout);
  for (;;) {
    rdma_cm_event_type type{};
    rdma_cm_id* const id = next_event(channel, &type);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      std::this_thread::sleep_for(time_for_each);
      rdma_conn_param parameters{};
      if (!make_queue_pair(id) || rdma_accept(id, &parameters) != 0) {
        end(id);
      }
    } else if (type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
      end(id);
    }
  }
}

void expect(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event_type type{};
  next_event(channel, &type);
  if (type != wanted) {
    std::fprintf(stderr, "%s instead of %s\n", rdma_event_str(type), rdma_event_str(wanted));
    std::exit(1);
  }
}

// An id that can connect.
rdma_cm_id* resolve(rdma_event_channel* channel, sockaddr_in to) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    give_up("rdma_create_id");
  }
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), kResolveMs) != 0) {
    give_up("rdma_resolve_addr");
  }
  expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, kResolveMs) != 0) {
    give_up("rdma_resolve_route");
  }
  expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

double connect_once(rdma_event_channel* channel, const sockaddr_in& to) {
  rdma_cm_id* const id = resolve(channel, to);
  rdma_conn_param parameters{};
  parameters.retry_count = 7;
  const auto start = std::chrono::steady_clock::now();
  if (!make_queue_pair(id) || rdma_connect(id, &parameters) != 0) {
    give_up("rdma_connect");
  }
  expect(channel, RDMA_CM_EVENT_ESTABLISHED);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  rdma_disconnect(id);
  expect(channel, RDMA_CM_EVENT_DISCONNECTED);
  end(id);
  return took.count();
}

// The queue pair's number isn't one that exists.
[[noreturn]] void withdraw(const sockaddr_in& to) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) {
    give_up("rdma_create_event_channel");
  }
  for (unsigned requests = 1;; ++requests) {
    rdma_cm_id* const id = resolve(channel, to);
    rdma_conn_param parameters{};
    parameters.qp_num = kQpnMask - requests % (kQpnMask / 2);
    if (rdma_connect(id, &parameters) != 0 || rdma_destroy_id(id) != 0) {
      give_up("rdma_connect");
    }
    if (requests == 1) {
      std::puts("attacking");
      std::fflush(stdout);
    }
  }
}

void connect(const sockaddr_in& to, int count) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) {
    give_up("rdma_create_event_channel");
  }
  std::string times;
  for (int i = 0; i < count; ++i) {
    times += (i == 0 ? "" : ", ") + std::to_string(connect_once(channel, to));
  }
  std::printf("[%s]\n", times.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if ((argc == 4 || argc == 5) && std::strcmp(argv[1], "listen") == 0) {
    listen(address_of(argv[2], argv[3]),
           std::chrono::milliseconds(argc == 5 ? std::atoi(argv[4]) : 0));
  }
  if (argc == 4 && std::strcmp(argv[1], "withdraw") == 0) {
    withdraw(address_of(argv[2], argv[3]));
  }
  if (argc == 5 && std::strcmp(argv[1], "connect") == 0) {
    connect(address_of(argv[2], argv[3]), std::atoi(argv[4]));
    return 0;
  }
  std::fprintf(
      stderr,
      "usage: cm_peer listen ADDRESS PORT [MS] | connect ADDRESS PORT N | withdraw ADDRESS PORT\n");
  return 2;
}
