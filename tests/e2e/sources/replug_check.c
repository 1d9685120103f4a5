/* What test_rdmacm.py does with a card that goes away and comes back under a program: in each round it opens the card, connects
 * two ids of its own by the connection manager and sends a message, then waits for IBV_EVENT_DEVICE_FATAL and for the next card.
 *   replug_check LISTENING_ADDRESS ADDRESS ROUNDS
 * Prints a line when a round's message has arrived, and ends after the last; otherwise it says which call said what. What it has
 * of a card that is gone is destroyed at once after odd rounds, and after even ones only when the next is in use. */
#include <unistd.h>

#include "cm_pair.h"

enum { kPollMicroseconds = 20000 };

static void wait_for_removal(struct ibv_context* context) {
  enum ibv_event_type type = IBV_EVENT_COMM_EST;
  while (type != IBV_EVENT_DEVICE_FATAL) {
    struct ibv_async_event event;
    CALL(ibv_get_async_event(context, &event));
    type = event.event_type;
    ibv_ack_async_event(&event);
  }
}

static void destroy_all(struct connection* c) {
  destroy(c);
  rdma_destroy_event_channel(c->channel);
}

static struct ibv_device** wait_for_card(void) {
  for (;;) {
    int count = 0;
    struct ibv_device** list = ibv_get_device_list(&count);
    CHECK(list != NULL);
    if (count != 0) return list;
    ibv_free_device_list(list);
    usleep(kPollMicroseconds);
  }
}

/* The next card has the name of the one before, and is another one. */
static void compare(struct ibv_device* before, struct ibv_device* now) {
  CHECK(before != now);
  CALL(strcmp(ibv_get_device_name(before), ibv_get_device_name(now)));
  CHECK(ibv_get_device_index(now) > 0);
  CHECK(ibv_get_device_index(before) != ibv_get_device_index(now));
}

/* Verbs without the connection manager. */
static void open_and_close(struct ibv_device* device) {
  struct ibv_context* context = ibv_open_device(device);
  CHECK(context != NULL);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  CHECK(pd != NULL);
  CALL(ibv_dealloc_pd(pd));
  CALL(ibv_close_device(context));
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rounds = atoi(argv[3]);
  struct ibv_device** before = NULL;
  struct connection connections[2], *left = NULL;
  for (int round = 1; round <= rounds; ++round) {
    struct ibv_device** list = wait_for_card();
    if (before != NULL) {
      compare(before[0], list[0]);
      ibv_free_device_list(before);
    }
    before = list;
    open_and_close(list[0]);

    struct connection* c = &connections[round % 2];
    CHECK((c->channel = rdma_create_event_channel()) != NULL);
    join(c, argv[1], argv[2]);
    send_message(c);
    if (left != NULL) destroy_all(left);
    left = NULL;
    printf("round %d\n", round);
    fflush(stdout);
    if (round < rounds) wait_for_removal(c->client->verbs);
    if (round % 2 == 1) {
      destroy_all(c);
    } else {
      left = c;
    }
  }
  if (left != NULL) destroy_all(left);
  ibv_free_device_list(before);
  return 0;
}
