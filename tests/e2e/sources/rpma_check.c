/* What test_storage.py does with librpma: a client writes into a file that the server has registered, flushes it to
 * persistence or to visibility, and reads it back. As in librpma's own examples the server's private data is the
 * descriptor of its memory, and the flush types are what that descriptor allows.
 *   rpma_check server ADDRESS PORT FILE BYTES; rpma_check client ADDRESS PORT
 * Each ends with 0 when everything went well; otherwise it says which call said what. */
#include <fcntl.h>
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPiece = 65536 };

static void check(int result, const char* call) {
  if (result == 0) return;
  fprintf(stderr, "%s: %s\n", call, rpma_err_2str(result));
  exit(1);
}
#define CALL(call) check(call, #call)

static struct rpma_peer* new_peer(const char* address, enum rpma_util_ibv_context_type type) {
  struct ibv_context* context = NULL;
  struct rpma_peer* peer = NULL;
  CALL(rpma_utils_get_ibv_context(address, type, &context));
  CALL(rpma_peer_new(context, &peer));
  return peer;
}

static void expect_event(struct rpma_conn* connection, enum rpma_conn_event wanted) {
  enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
  CALL(rpma_conn_next_event(connection, &event));
  if (event == wanted) return;
  fprintf(stderr, "event: %s\n", rpma_utils_conn_event_2str(event));
  exit(1);
}

static void serve(const char* address, const char* port, const char* path, size_t bytes) {
  const int file = open(path, O_RDWR);
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || memory == MAP_FAILED) {
    perror(path);
    exit(1);
  }
  struct rpma_peer* peer = new_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
  struct rpma_mr_local* region = NULL;
  CALL(rpma_mr_reg(peer, memory, bytes,
                   RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                       RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
                   &region));
  size_t descriptor_bytes = 0;
  unsigned char descriptor[256];
  CALL(rpma_mr_get_descriptor_size(region, &descriptor_bytes));
  CALL(descriptor_bytes > sizeof(descriptor));
  CALL(rpma_mr_get_descriptor(region, descriptor));
  const struct rpma_conn_private_data data = {.ptr = descriptor, .len = (uint8_t)descriptor_bytes};

  struct rpma_ep* endpoint = NULL;
  CALL(rpma_ep_listen(peer, address, port, &endpoint));
  struct rpma_conn_req* request = NULL;
  struct rpma_conn* connection = NULL;
  CALL(rpma_ep_next_conn_req(endpoint, NULL, &request));
  CALL(rpma_conn_req_connect(&request, &data, &connection));
  expect_event(connection, RPMA_CONN_ESTABLISHED);
  expect_event(connection, RPMA_CONN_CLOSED);
  CALL(rpma_conn_disconnect(connection));
  CALL(rpma_conn_delete(&connection));
  CALL(rpma_ep_shutdown(&endpoint));
  CALL(rpma_mr_dereg(&region));
  CALL(rpma_peer_delete(&peer));
}

static void await(struct rpma_conn* connection, const char* what) {
  struct rpma_cq* queue = NULL;
  struct ibv_wc completion;
  CALL(rpma_conn_get_cq(connection, &queue));
  CALL(rpma_cq_wait(queue));
  CALL(rpma_cq_get_wc(queue, 1, &completion, NULL));
  if (completion.status == IBV_WC_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(completion.status));
  exit(1);
}

/* librpma flushes to persistence only if told that the server's card bypasses the processors' caches. */
static void promise_direct_writes(struct rpma_conn* connection) {
  struct rpma_peer_cfg* configuration = NULL;
  CALL(rpma_peer_cfg_new(&configuration));
  CALL(rpma_peer_cfg_set_direct_write_to_pmem(configuration, true));
  CALL(rpma_conn_apply_remote_peer_cfg(connection, configuration));
  CALL(rpma_peer_cfg_delete(&configuration));
}

static uint64_t pattern(uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15u; }

static void use(const char* address, const char* port) {
  struct rpma_peer* peer = new_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
  struct rpma_conn_req* request = NULL;
  struct rpma_conn* connection = NULL;
  CALL(rpma_conn_req_new(peer, address, port, NULL, &request));
  CALL(rpma_conn_req_connect(&request, NULL, &connection));
  expect_event(connection, RPMA_CONN_ESTABLISHED);
  promise_direct_writes(connection);
  struct rpma_conn_private_data data = {0};
  struct rpma_mr_remote* remote = NULL;
  size_t bytes = 0;
  CALL(rpma_conn_get_private_data(connection, &data));
  CALL(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
  CALL(rpma_mr_remote_get_size(remote, &bytes));

  uint64_t* piece = aligned_alloc(4096, kPiece);
  struct rpma_mr_local* local = NULL;
  CALL(rpma_mr_reg(peer, piece, kPiece,
                   RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &local));
  for (size_t at = 0; at < bytes; at += kPiece) {
    for (size_t i = 0; i < kPiece / 8; ++i) piece[i] = pattern(at / 8 + i);
    const enum rpma_flush_type type = at / kPiece % 2 ? RPMA_FLUSH_TYPE_VISIBILITY : RPMA_FLUSH_TYPE_PERSISTENT;
    CALL(rpma_write(connection, remote, at, local, 0, kPiece, RPMA_F_COMPLETION_ON_ERROR, NULL));
    CALL(rpma_flush(connection, remote, at, kPiece, type, RPMA_F_COMPLETION_ALWAYS, NULL));
    await(connection, "flush");
    memset(piece, 0, kPiece);
    CALL(rpma_read(connection, local, 0, remote, at, kPiece, RPMA_F_COMPLETION_ALWAYS, NULL));
    await(connection, "read");
    for (size_t i = 0; i < kPiece / 8; ++i) CALL(piece[i] != pattern(at / 8 + i));
  }
  CALL(rpma_conn_disconnect(connection));
  expect_event(connection, RPMA_CONN_CLOSED);
  CALL(rpma_conn_delete(&connection));
  CALL(rpma_mr_remote_delete(&remote));
  CALL(rpma_mr_dereg(&local));
  CALL(rpma_peer_delete(&peer));
  printf("%zu bytes written, flushed and read\n", bytes);
}

int main(int argc, char** argv) {
  if (argc == 6 && strcmp(argv[1], "server") == 0) {
    serve(argv[2], argv[3], argv[4], strtoul(argv[5], NULL, 0));
  } else if (argc == 4 && strcmp(argv[1], "client") == 0) {
    use(argv[2], argv[3]);
  } else {
    return 2;
  }
  return 0;
}
