#pragma once

// One connection of the message server: its id, queue pair and message buffers. A message needs a
// credit: a receive that the peer has posted for it. Credits come back with the peer's messages.
// One thread; errors end the program with a sentence.

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

inline constexpr std::uint32_t kFragmentsMax = 256;
inline constexpr std::uint32_t kFragmentBytes = 4096;
inline constexpr std::uint32_t kTransferBytes = kFragmentsMax * kFragmentBytes;  // 1 MiB
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kMagic = 0x6D736773;

// The private data of the request, of its acceptance and of a refusal.
struct Hello {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t depth = 0;  // receives that the sender of this has posted
  std::uint32_t fragments_max = kFragmentsMax;
};

struct Fragment {
  std::uint64_t address;
  std::uint32_t rkey, bytes;
};

enum class Kind : std::uint32_t {
  kPut,      // I have so many bytes for you
  kSink,     // write them into these fragments
  kWritten,  // they are written
  kTaken,    // and they were right
};
struct Message {
  Kind kind;
  std::uint32_t credits;
  std::uint64_t sequence;
  std::uint32_t bytes, fragment_count;
  Fragment fragments[kFragmentsMax];
};

// Ends the program unless `fine`.
void check(bool fine, const char* what);
// The next event of the channel, which must be this one. Acknowledge it.
rdma_cm_event* expect_event(rdma_event_channel* channel, rdma_cm_event_type type);

class Peer {
 public:
  // Makes the completion queue and the queue pair of an id that has a route or is a request. Asks
  // for `sends_wished` and takes half as often as it must.
  Peer(rdma_cm_id* id, std::uint32_t sends_wished);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] Hello hello() const;
  void meet(const Hello& theirs) { credits_ = theirs.depth; }
  // Transfers that fit at once.
  [[nodiscard]] std::uint32_t window() const;
  [[nodiscard]] rdma_cm_id* id() const { return id_; }

  void send(const Message& message);
  // Writes the parts of a buffer into the peer's fragments; their completion needs no waiting for,
  // since a message sent afterwards arrives after them.
  void write(const std::byte* buffer, std::uint32_t lkey, const Message& sink);
  // Takes one completion if there is one, and hands a message that came to `take`. False when the
  // peer has disconnected.
  bool poll(const std::function<void(const Message&)>& take);

 private:
  void post_receive(std::uint32_t slot);
  bool connected();

  rdma_cm_id* id_;
  ibv_cq* cq_ = nullptr;
  std::uint32_t sends_ = 0;
  std::unique_ptr<Message[]> inbox_, outbox_;
  ibv_mr* inbox_region_ = nullptr;
  ibv_mr* outbox_region_ = nullptr;
  std::vector<std::uint32_t> free_slots_;  // of the outbox
  std::uint32_t credits_ = 0;              // messages that the peer has room for
  std::uint32_t owed_ = 0;                 // receives that we posted anew and the peer doesn't know
  std::uint32_t idle_polls_ = 0;
};
