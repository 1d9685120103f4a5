// What test_gloo.py does with Gloo, the collectives of PyTorch, over its ibverbs transport:
// allreduce by two algorithms and broadcast, of 1 to a million floats, every value compared.
//   gloo_check RANK SIZE FOLDER DEVICE GID_INDEX
// The ranks exchange addresses by files in FOLDER. Each ends with 0 when everything was right.
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kRounds = 10;
constexpr int kRoot = 0;

// Gloo aborts if an algorithm ends before its last send has completed, which run() doesn't wait
// for: so none ever ends.
std::vector<std::unique_ptr<gloo::Algorithm>> algorithms;
std::vector<std::unique_ptr<std::vector<float>>> vectors;  // which they work on

void expect_all(const std::vector<float>& data, float wanted, const char* what) {
  for (const float value : data) {
    if (value != wanted) {
      std::fprintf(stderr, "%s of %zu values: %f instead of %f\n", what, data.size(), value,
                   wanted);
      std::exit(1);
    }
  }
}

template <typename Allreduce>
void check_allreduce(const std::shared_ptr<gloo::Context>& context, int count, const char* name) {
  auto& data = *vectors.emplace_back(std::make_unique<std::vector<float>>(count));
  auto& sum = *algorithms.emplace_back(
      std::make_unique<Allreduce>(context, std::vector<float*>{data.data()}, count));
  for (int i = 0; i < kRounds; ++i) {
    std::fill(data.begin(), data.end(), static_cast<float>(context->rank + 1 + i));
    sum.run();
    const int ranks = context->size;
    expect_all(data, static_cast<float>(ranks * (ranks + 1) / 2 + ranks * i), name);
  }
}

void check_broadcast(const std::shared_ptr<gloo::Context>& context, int count) {
  auto& data = *vectors.emplace_back(
      std::make_unique<std::vector<float>>(count, static_cast<float>(context->rank + 1)));
  algorithms
      .emplace_back(std::make_unique<gloo::BroadcastOneToAll<float>>(
          context, std::vector<float*>{data.data()}, count, kRoot))
      ->run();
  expect_all(data, kRoot + 1, "broadcast");
}

// A rank that ended at once could leave another without its last message.
[[noreturn]] void end_together(gloo::rendezvous::FileStore& store, int rank, int size) {
  std::vector<std::string> all;
  for (int i = 0; i < size; ++i) {
    all.push_back("done" + std::to_string(i));
  }
  store.set(all[rank], {});
  store.wait(all);
  std::_Exit(0);
}

}  // namespace

int main(int, char** arguments) {
  gloo::transport::ibverbs::attr attributes{};
  attributes.name = arguments[4];
  attributes.port = 1;
  attributes.index = std::atoi(arguments[5]);
  auto device = gloo::transport::ibverbs::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(arguments[3]);
  const auto context =
      std::make_shared<gloo::rendezvous::Context>(std::atoi(arguments[1]), std::atoi(arguments[2]));
  context->connectFullMesh(store, device);
  for (const int count : {1, 1'000, 1'000'000}) {
    check_allreduce<gloo::AllreduceRingChunked<float>>(context, count, "ring allreduce");
    check_allreduce<gloo::AllreduceHalvingDoubling<float>>(context, count, "halving allreduce");
    check_broadcast(context, count);
  }
  std::printf("rank %d of %d: all right\n", context->rank, context->size);
  std::fflush(stdout);
  end_together(store, context->rank, context->size);
}
