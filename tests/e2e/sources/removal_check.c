/* What test_rdmacm.py does with a card that goes away and comes back under a program that has one event channel for all its life,
 * as Lustre's LNet and SPDK have: it learns by RDMA_CM_EVENT_DEVICE_REMOVAL which ids it lost, destroys them, and makes new ones
 * in the same channel, which its epoll instance watches from the beginning.
 *   removal_check LISTENING_ADDRESS ADDRESS ROUNDS
 * In each round two ids are connected and send a message. Prints a line when it has arrived, and one when all three ids are
 * reported as removed; otherwise it says which call said what. Ids are destroyed at once in odd rounds, else after the last. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm_pair.h"

enum { kPollMicroseconds = 20000, kIds = 3, kRemovalMs = 20000 };

static int is_readable(int epoll, int milliseconds) {
  struct epoll_event event;
  const int count = epoll_wait(epoll, &event, 1, milliseconds);
  CHECK(count >= 0);
  return count;
}

static void destroy_one(struct connection* c, struct rdma_cm_id* id) {
  if (id == c->server) CALL(rdma_dereg_mr(c->region));
  if (id != c->listener) rdma_destroy_qp(id);
  CALL(rdma_destroy_id(id));
}

static void expect_nothing(struct rdma_event_channel* channel, int epoll) {
  struct rdma_cm_event* event;
  CHECK(!is_readable(epoll, 0));
  CALL(fcntl(channel->fd, F_SETFL, O_NONBLOCK));
  CHECK(rdma_get_cm_event(channel, &event) != 0 && errno == EAGAIN);
  CALL(fcntl(channel->fd, F_SETFL, 0));
}

static void lose(struct connection* c, int epoll, int at_once) {
  struct rdma_cm_id* lost[kIds];
  uint8_t type = 0;
  for (int i = 0; i < kIds; ++i) {
    CHECK(is_readable(epoll, kRemovalMs));
    lost[i] = expect(c->channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
    CHECK(lost[i] == c->listener || lost[i] == c->client || lost[i] == c->server);
    for (int before = 0; before < i; ++before) CHECK(lost[before] != lost[i]);
    CHECK(rdma_set_option(lost[i], RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type, sizeof(type)) != 0 && errno == ENODEV);
    if (at_once) destroy_one(c, lost[i]);
  }
  expect_nothing(c->channel, epoll);
  for (int i = 0; i < kIds && !at_once; ++i) destroy_one(c, lost[i]);
  expect_nothing(c->channel, epoll);
}

static void wait_for_card(struct rdma_event_channel* channel) {
  struct rdma_cm_id* id;
  while (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0) {
    CHECK(errno == ENODEV);
    usleep(kPollMicroseconds);
  }
  CALL(rdma_destroy_id(id));
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rounds = atoi(argv[3]);
  struct connection c;
  CHECK((c.channel = rdma_create_event_channel()) != NULL);
  struct epoll_event interest = {.events = EPOLLIN};
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, c.channel->fd, &interest));
  for (int round = 1; round <= rounds; ++round) {
    wait_for_card(c.channel);
    join(&c, argv[1], argv[2]);
    send_message(&c);
    printf("round %d\n", round);
    fflush(stdout);
    if (round < rounds) {
      lose(&c, epoll, round % 2);
      printf("lost %d\n", round);
      fflush(stdout);
    }
  }
  destroy(&c);
  rdma_destroy_event_channel(c.channel);
  return 0;
}
