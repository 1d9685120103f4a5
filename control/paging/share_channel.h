#pragma once

// The daemon's end of a program's share channel (abi/paging_records.h): asks the program what it
// has mapped at an address range, and parses its untrusted answers. Fault thread only.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/sockets/record_socket.h"
#include "base/time/line_throttle.h"
#include "base/unique_fd.h"
#include "control/foreign/foreign_socket.h"
#include "control/foreign/inbox.h"
#include "mmu/backing_file.h"
#include "mmu/mirror/mirror.h"
#include "mmu/mirror/mirror_files.h"

namespace uroce::control {

class ShareChannel {
 public:
  // What the log says of all channels; their owner's, which outlives them.
  struct Lines {
    LineThrottle arenas;  // that a program's memory can't be reached any more
    LineThrottle full;    // nor any more of it
  };

  ShareChannel(std::shared_ptr<Mirror> mirror, std::shared_ptr<const ForeignSocket> socket,
               const Peer& peer, std::uint64_t tag, Lines& lines)
      : lines_(&lines),
        mirror_(std::move(mirror)),
        socket_(std::move(socket)),
        peer_(peer),
        tag_(tag),
        files_(mirror_->account()) {}

  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return mirror_; }
  // Identifies records that a helper has received for this channel.
  [[nodiscard]] std::uint64_t tag() const { return tag_; }
  [[nodiscard]] int descriptor() const { return socket_->get(); }

  // False if the request couldn't be sent: the program is gone, or doesn't read its requests.
  [[nodiscard]] bool ask(std::uint64_t first, std::uint64_t end, bool write,
                         std::uint32_t sequence) const;

  struct Answer {
    std::uint32_t sequence = 0;
    std::uint64_t end = 0;  // described up to here; 0: the program couldn't tell
    std::vector<MirrorPiece> pieces;
    // The pieces' descriptors; closed with the answer.
    std::vector<UniqueFd> passed;
    std::vector<OpenedFile> opened;
  };
  enum class AnswerStatus : std::uint8_t {
    kNothing,  // nothing to read now
    kAnswer,
    kArena,    // the arena was registered
    kFetched,  // a helper receives the record: pass it to handle_record() when it arrives, and no
               // other before
    kBroken,   // the program disconnected or sent an invalid record
  };
  AnswerStatus receive(HelperPool& helpers, Inbox& inbox, Answer* answer);
  // `opened`: files behind the program's mappings that the record names.
  AnswerStatus handle_record(ReceiveStatus receipt, Record record, std::vector<OpenedFile> opened,
                             Answer* answer);

  // Logs once that no more of the program's memory is accessible on demand, if the mirror is full
  // and a line is due.
  void warn_when_full();

 private:
  AnswerStatus take_arena(Record record);
  AnswerStatus take_answer(Record record, std::vector<OpenedFile> opened, Answer* answer);

  Lines* lines_;
  std::shared_ptr<Mirror> mirror_;
  std::shared_ptr<const ForeignSocket> socket_;
  Peer peer_;
  std::uint64_t tag_;
  MirrorFiles files_;
  bool full_logged_ = false;
};

}  // namespace uroce::control
