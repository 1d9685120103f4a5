#pragma once

// A stand-in for the daemon: a process of its own that maps what the program shares, with the
// daemon's real code, and reads and writes it on request.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "mmu/access.h"
#include "verbs_shim/memory/pinned/registered_memory.h"

namespace uroce::test {

struct Registered {
  std::uint32_t error = 0;  // errno
  std::uint32_t remote_pieces = 0;
  std::uint32_t pieces = 0;
};

class StandIn {
 public:
  // Starts the process; the program that shares memory is this process unless set_program() is
  // called.
  StandIn();
  ~StandIn();  // ends it and waits
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  // The program that shares memory, if it isn't the process that started the stand-in.
  void set_program(int pid, std::uint32_t uid, std::uint32_t gid);

  // describe_memory() here, make_region() there.
  Registered share(const void* address, std::uint64_t length,
                   std::uint32_t access = kAccessLocalWrite | kAccessRemoteWrite);

  // In the region that was shared last. An empty vector, or false, if the copy failed.
  std::vector<std::byte> read(const void* address, std::uint32_t length);
  bool write(const void* address, std::span<const std::byte> bytes);
  bool add(const void* address, std::uint64_t value, std::uint32_t times = 1);

  // Shorthands for one word.
  std::uint64_t load(const void* address);
  bool store(const void* address, std::uint64_t value);

 private:
  struct Answer;
  Answer ask(std::vector<std::byte> order, const std::vector<int>& descriptors = {});

  int pid_ = -1;
  UniqueFd socket_;
  std::vector<std::uint32_t> arenas_;  // the stand-in's handle by the index here
};

}  // namespace uroce::test
