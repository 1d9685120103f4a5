#include "verbs_shim/verbs/mr_records.h"

#include <memory>
#include <span>

namespace uroce::shim {
namespace {

// Room for a RegMrRequest with as many pieces as it may have.
struct alignas(abi::RegMrRequest) RegistrationRecord {
  std::byte bytes[sizeof(abi::RegMrRequest) + abi::kPiecesMax * sizeof(abi::MemoryPiece)];
};
static_assert(sizeof(RegistrationRecord) <= kRecordMax);

// The daemon's handle of an arena; hands the arena over the first time. REQUIRES: the context's
// mutex. 0 or an errno value.
int arena_handle(Context& context, std::uint32_t index, std::uint32_t& handle) {
  if (index >= context.arenas.size()) {
    context.arenas.resize(index + 1);
  }
  if (context.arenas[index] == 0) {
    const Arena shared = arena(index);
    abi::ShareArenaRequest request{};
    request.page_size = shared.page_size;
    abi::HandleReply reply{};
    const int error = context.client.call("ibv_reg_mr", abi::Command::kShareArena, request, reply,
                                          nullptr, std::span(&shared.descriptor, 1));
    if (error != 0) {
      return error;
    }
    context.arenas[index] = reply.handle + 1;
  }
  handle = context.arenas[index] - 1;
  return 0;
}

// The descriptors of one record, each once, in the order in which its pieces name them.
class PassedDescriptors {
 public:
  // The place of descriptor `index` among them; kDescriptorsMax if there is no room.
  std::uint32_t place(const MemoryDescription& description, std::uint32_t index) {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (sources_[i] == index) {
        return i;
      }
    }
    if (count_ == kDescriptorsMax) {
      return count_;
    }
    sources_[count_] = index;
    descriptors_[count_] = description.descriptors[index].get();
    return count_++;
  }
  [[nodiscard]] std::span<const int> all() const { return {descriptors_, count_}; }

 private:
  std::uint32_t sources_[kDescriptorsMax];
  int descriptors_[kDescriptorsMax];
  std::uint32_t count_ = 0;
};

// Moves pieces of the description, from `next` on, into the record, until it is full.
void fill(abi::RegMrRequest& request, const MemoryDescription& description, std::size_t& next,
          PassedDescriptors& passed) {
  request.piece_count = 0;
  while (next < description.pieces.size() && request.piece_count < abi::kPiecesMax) {
    abi::MemoryPiece piece = description.pieces[next];
    if (piece.kind == abi::PieceKind::kDescriptor) {
      piece.source = passed.place(description, piece.source);
      if (piece.source == kDescriptorsMax) {
        break;  // no room for its descriptor: it opens the next record
      }
    }
    request.pieces[request.piece_count++] = piece;
    ++next;
  }
  request.more_pieces = next < description.pieces.size() ? 1 : 0;
}

Client::Part part_of(bool first, bool last) {
  if (first) {
    return last ? Client::Part::kOnly : Client::Part::kFirst;
  }
  return last ? Client::Part::kLast : Client::Part::kMiddle;
}

}  // namespace

int share_arenas(Context& context, MemoryDescription& description) {
  int error = 0;
  pthread_mutex_lock(&context.base.context.mutex);
  for (abi::MemoryPiece& piece : description.pieces) {
    if (piece.kind == abi::PieceKind::kArena && error == 0) {
      error = arena_handle(context, piece.source, piece.source);
    }
  }
  pthread_mutex_unlock(&context.base.context.mutex);
  return error;
}

int send_registration(Client& client, const abi::RegMrRequest& head,
                      const MemoryDescription& description, abi::RegMrReply& reply) {
  const std::unique_ptr<RegistrationRecord> record(new (std::nothrow) RegistrationRecord());
  if (record == nullptr) {
    return ENOMEM;
  }
  auto& request = *reinterpret_cast<abi::RegMrRequest*>(record->bytes);
  std::size_t next = 0;
  do {
    const bool first = next == 0;
    PassedDescriptors passed;
    request = head;
    fill(request, description, next, passed);
    const int error = client.exchange(
        "ibv_reg_mr", abi::Command::kRegMr, request.header,
        sizeof(request) + request.piece_count * sizeof(abi::MemoryPiece), reply.header,
        sizeof(reply), nullptr, passed.all(), part_of(first, request.more_pieces == 0));
    if (error != 0) {
      return error;
    }
  } while (request.more_pieces != 0);
  return 0;
}

}  // namespace uroce::shim
