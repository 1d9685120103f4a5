#pragma once

/* For programs of tests/e2e: two ids of one program that are connected by the connection manager.
 * What fails ends the program. */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTimeoutMs = 5000 };

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}
#define CHECK(condition) check(condition, #condition)
#define CALL(call) check((call) == 0, #call)

struct connection {
  struct rdma_event_channel* channel; /* its owner's */
  struct rdma_cm_id *listener, *client, *server;
  struct ibv_mr* region;
  char received[32];
};

/* Returns the id that the event is about. */
static struct rdma_cm_id* expect(struct rdma_event_channel* channel,
                                 enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event = NULL;
  CALL(rdma_get_cm_event(channel, &event));
  if (event->event != wanted) {
    fprintf(stderr, "%s (%d), not %s\n", rdma_event_str(event->event), event->status,
            rdma_event_str(wanted));
    exit(1);
  }
  struct rdma_cm_id* id = event->id;
  CALL(rdma_ack_cm_event(event));
  return id;
}

static void create_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4,
                                          .max_recv_wr = 4,
                                          .max_send_sge = 1,
                                          .max_recv_sge = 1,
                                          .max_inline_data = 32},
                                  .qp_type = IBV_QPT_RC,
                                  .sq_sig_all = 1};
  CALL(rdma_create_qp(id, NULL, &attr));
}

static struct sockaddr_in address_of(const char* text) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  CHECK(inet_pton(AF_INET, text, &address.sin_addr) == 1);
  return address;
}

static void join(struct connection* c, const char* listening, const char* wanted) {
  struct sockaddr_in local = address_of(listening), remote = address_of(wanted);
  CALL(rdma_create_id(c->channel, &c->listener, NULL, RDMA_PS_TCP));
  CALL(rdma_bind_addr(c->listener, (struct sockaddr*)&local));
  CALL(rdma_listen(c->listener, 1));
  remote.sin_port = rdma_get_src_port(c->listener);

  CALL(rdma_create_id(c->channel, &c->client, NULL, RDMA_PS_TCP));
  CALL(rdma_resolve_addr(c->client, NULL, (struct sockaddr*)&remote, kTimeoutMs));
  expect(c->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  CALL(rdma_resolve_route(c->client, kTimeoutMs));
  expect(c->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(c->client);
  struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};
  CALL(rdma_connect(c->client, &parameters));

  c->server = expect(c->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  create_qp(c->server);
  CHECK((c->region = rdma_reg_msgs(c->server, c->received, sizeof(c->received))) != NULL);
  CALL(rdma_post_recv(c->server, NULL, c->received, sizeof(c->received), c->region));
  CALL(rdma_accept(c->server, &parameters));
  expect(c->channel, RDMA_CM_EVENT_ESTABLISHED);
  expect(c->channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void send_message(struct connection* c) {
  char message[sizeof(c->received)] = "a message";
  struct ibv_wc completion = {.status = IBV_WC_GENERAL_ERR};
  CALL(rdma_post_send(c->client, NULL, message, sizeof(message), NULL, IBV_SEND_INLINE));
  CHECK(rdma_get_send_comp(c->client, &completion) == 1 && completion.status == IBV_WC_SUCCESS);
  CHECK(rdma_get_recv_comp(c->server, &completion) == 1 && completion.status == IBV_WC_SUCCESS);
  CALL(memcmp(c->received, message, sizeof(message)));
}

static void destroy(struct connection* c) {
  rdma_destroy_qp(c->client);
  rdma_destroy_qp(c->server);
  CALL(rdma_dereg_mr(c->region));
  CALL(rdma_destroy_id(c->client));
  CALL(rdma_destroy_id(c->server));
  CALL(rdma_destroy_id(c->listener));
}
