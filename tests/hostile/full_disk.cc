// full_disk FILE pinned|on-demand: registers 4 MiB of a file for which the disk has no room, and
// WRITEs to its pages. Prints how far it got; a full disk harms only the program itself.

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/bench/parts/card.h"

namespace {

constexpr std::size_t kLength = std::size_t{4} << 20U;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kWriteBytes = 64;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: full_disk FILE pinned|on-demand\n");
    return 2;
  }
  const int file = ::open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* const memory = file >= 0 && ::ftruncate(file, kLength) == 0
                           ? ::mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                           : MAP_FAILED;
  if (memory == MAP_FAILED) {
    std::perror(argv[1]);
    return 2;
  }
  const bool on_demand = std::string_view(argv[2]) == "on-demand";
  uroce::bench::BenchCard card;
  uroce::bench::BenchPair pair(card);
  const uroce::bench::Pages source(kPage);
  const auto from = card.register_range(source.data(), kPage, false);
  const int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (on_demand ? IBV_ACCESS_ON_DEMAND : 0);
  ibv_mr* const region = ibv_reg_mr(card.pd(), memory, kLength, access);
  if (region == nullptr) {
    std::printf("refused: %s\n", std::strerror(errno));
    return 0;
  }
  for (std::size_t at = 0; at < kLength; at += kPage) {
    std::printf("page %zu\n", at / kPage);
    std::fflush(stdout);
    pair.write_one(*from, *region, at, kWriteBytes);  // ends the program where it fails
  }
  std::puts("all written");
  return 0;
}
