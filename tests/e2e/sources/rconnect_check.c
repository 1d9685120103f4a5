/* What test_rdmacm.py does with a daemon that is killed under rconnect: it fails, and says why.
 *   rconnect_check ADDRESS
 * The listener never answers, so that rconnect waits. */
#include <rdma/rsocket.h>

#include "cm_pair.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  struct sockaddr_in address = address_of(argv[1]);
  struct rdma_cm_id* listener;
  struct rdma_event_channel* channel = rdma_create_event_channel();
  CHECK(channel != NULL);
  CALL(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
  CALL(rdma_bind_addr(listener, (struct sockaddr*)&address));
  CALL(rdma_listen(listener, 1));
  address.sin_port = rdma_get_src_port(listener);
  const int socket = rsocket(AF_INET, SOCK_STREAM, 0);
  CHECK(socket >= 0);
  CHECK(rconnect(socket, (struct sockaddr*)&address, sizeof(address)) != 0);
  printf("rconnect: %s\n", strerror(errno));
  return errno == ENODEV ? 0 : 1;
}
