#pragma once

// The daemon's end of a program's share channel (abi/paging_records.h): asks what lies where, and
// takes the answers apart, trusting nothing of them. The fault thread's.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/record_socket.h"
#include "base/unique_fd.h"
#include "mmu/mirror.h"
#include "mmu/mirror_files.h"

namespace uroce::control {

class ShareChannel {
 public:
  ShareChannel(std::shared_ptr<Mirror> mirror, UniqueFd socket, const Peer& peer)
      : mirror_(std::move(mirror)), socket_(std::move(socket)), files_(peer.pid, peer.uid) {}

  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return mirror_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }

  // False if the program can't be asked: it is gone, or doesn't read its questions.
  [[nodiscard]] bool ask(std::uint64_t first, std::uint64_t end, bool write,
                         std::uint32_t sequence) const;

  struct Answer {
    std::uint32_t sequence = 0;
    std::uint64_t end = 0;  // described up to here; 0: nothing could be found out
    std::vector<MirrorPiece> pieces;
    // What the pieces' descriptors are; closed with the answer.
    std::vector<UniqueFd> passed, opened;
  };
  enum class Heard : std::uint8_t {
    kNothing,  // for now
    kAnswer,
    kArena,   // has been noted
    kBroken,  // the program hung up, or talks nonsense
  };
  Heard receive(Answer* answer);

  // Says once that no more of the program's memory can be reached, when it is so.
  void warn_when_full();

 private:
  Heard take_arena(Record record);
  Heard take_answer(Record record, Answer* answer);

  std::shared_ptr<Mirror> mirror_;
  UniqueFd socket_;
  MirrorFiles files_;
  bool said_full_ = false;
};

}  // namespace uroce::control
