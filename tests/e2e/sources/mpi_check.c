/* The ranks' part of test_mpi.py: collectives, messages of several protocols' sizes, one-sided
 * operations. Every value that arrives is compared with what it must be, so the last line and
 * the exit code say that all data was right. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 3, kSlots = 4096 };

static int rank, ranks;

static uint64_t value(uint64_t round, uint64_t from, uint64_t to, uint64_t index) {
  return (((round * 31 + from) * 31 + to) * 1000003 + index) * 0x9e3779b97f4a7c15u;
}

static void expect(const char* what, uint64_t found, uint64_t wanted, uint64_t index) {
  if (found == wanted) return;
  fprintf(stderr, "rank %d: %s: element %llu is %llx, not %llx\n", rank, what, (unsigned long long)index,
          (unsigned long long)found, (unsigned long long)wanted);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t* array(size_t count) {
  uint64_t* memory = calloc(count, sizeof(uint64_t));
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

static void check_allreduce(int round, int count) {
  uint64_t *in = array(count), *out = array(count);
  for (int i = 0; i < count; ++i) in[i] = value(round, rank, 0, i);
  MPI_Allreduce(in, out, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    uint64_t sum = 0;
    for (int from = 0; from < ranks; ++from) sum += value(round, from, 0, i);
    expect("allreduce", out[i], sum, i);
  }
  free(in);
  free(out);
}

static void check_alltoall(int round, int count) {
  uint64_t *in = array((size_t)count * ranks), *out = array((size_t)count * ranks);
  for (int to = 0; to < ranks; ++to) {
    for (int i = 0; i < count; ++i) in[to * count + i] = value(round, rank, to, i);
  }
  MPI_Alltoall(in, count, MPI_UINT64_T, out, count, MPI_UINT64_T, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < count; ++i) expect("alltoall", out[from * count + i], value(round, from, rank, i), i);
  }
  free(in);
  free(out);
}

/* All ranks send to their right neighbours at the same time. */
static void check_ring(int round, int count) {
  uint64_t *in = array(count), *out = array(count);
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  for (int i = 0; i < count; ++i) in[i] = value(round, rank, right, i);
  MPI_Sendrecv(in, count, MPI_UINT64_T, right, round, out, count, MPI_UINT64_T, left, round, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < count; ++i) expect("ring", out[i], value(round, left, rank, i), i);
  free(in);
  free(out);
}

/* Put to the right, get from the left, and a counter on rank 0 to which all ranks add. */
static void check_one_sided(int round) {
  uint64_t* memory = NULL;
  MPI_Win window;
  MPI_Win_allocate((2 * kSlots + 1) * sizeof(uint64_t), sizeof(uint64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                   &window);
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  uint64_t *put = array(kSlots), *got = array(kSlots);
  for (int i = 0; i < kSlots; ++i) {
    put[i] = value(round, rank, right, i);
    memory[kSlots + i] = value(round, rank, 99, i);
  }
  memory[2 * kSlots] = 0;
  MPI_Win_fence(0, window);
  MPI_Put(put, kSlots, MPI_UINT64_T, right, 0, kSlots, MPI_UINT64_T, window);
  MPI_Get(got, kSlots, MPI_UINT64_T, left, kSlots, kSlots, MPI_UINT64_T, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < kSlots; ++i) {
    expect("put", memory[i], value(round, left, rank, i), i);
    expect("get", got[i], value(round, left, 99, i), i);
  }
  MPI_Win_lock_all(0, window);
  uint64_t before = 0;
  const uint64_t one = 1;
  for (int i = 0; i < 20; ++i) MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 0, 2 * kSlots, MPI_SUM, window);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 0, 2 * kSlots, MPI_NO_OP, window);
  MPI_Win_unlock(0, window);
  expect("fetch and add", before, (uint64_t)ranks * 20, 0);
  MPI_Win_free(&window);
  free(put);
  free(got);
}

int main(int argc, char** argv) {
  const int count_max = argc > 1 ? atoi(argv[1]) : 1 << 18;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int round = 0; round < kRounds; ++round) {
    for (int count = 1; count <= count_max; count *= 64) {
      check_allreduce(round, count);
      check_alltoall(round, count / ranks + 1);
      check_ring(round, count);
    }
    check_one_sided(round);
  }
  if (rank == 0) printf("all right with %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
