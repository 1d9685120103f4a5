#include "verbs_shim/mr_records.h"

#include <memory>
#include <span>

namespace uroce::shim {
namespace {

// Room for a RegMrRequest with as many pieces as it may have.
struct alignas(control::RegMrRequest) RegistrationRecord {
  std::byte bytes[sizeof(control::RegMrRequest) + control::kPiecesMax * sizeof(abi::MemoryPiece)];
};
static_assert(sizeof(RegistrationRecord) <= control::kRecordMax);

// The daemon's handle of an arena; hands the arena over the first time. REQUIRES: the context's
// mutex. 0 or an errno value.
int arena_handle(Context& context, std::uint32_t index, std::uint32_t& handle) {
  if (index >= context.arenas.size()) {
    context.arenas.resize(index + 1);
  }
  if (context.arenas[index] == 0) {
    const Arena shared = arena(index);
    control::ShareArenaRequest request{};
    request.page_size = shared.page_size;
    control::HandleReply reply{};
    const int error = context.client.call("ibv_reg_mr", control::Command::kShareArena, request,
                                          reply, nullptr, std::span(&shared.descriptor, 1));
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
    if (count_ == control::kDescriptorsMax) {
      return count_;
    }
    sources_[count_] = index;
    descriptors_[count_] = description.descriptors[index].get();
    return count_++;
  }
  [[nodiscard]] std::span<const int> all() const { return {descriptors_, count_}; }

 private:
  std::uint32_t sources_[control::kDescriptorsMax];
  int descriptors_[control::kDescriptorsMax];
  std::uint32_t count_ = 0;
};

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

int send_registration(Client& client, const control::RegMrRequest& head,
                      const MemoryDescription& description, control::RegMrReply& reply) {
  const std::unique_ptr<RegistrationRecord> record(new (std::nothrow) RegistrationRecord());
  if (record == nullptr) {
    return ENOMEM;
  }
  auto& request = *reinterpret_cast<control::RegMrRequest*>(record->bytes);
  std::size_t sent = 0;
  bool first = true;
  do {
    request = head;
    PassedDescriptors passed;
    std::uint32_t count = 0;
    for (; sent < description.pieces.size() && count < control::kPiecesMax; ++sent, ++count) {
      abi::MemoryPiece& piece = request.pieces[count] = description.pieces[sent];
      if (piece.kind == abi::PieceKind::kDescriptor) {
        piece.source = passed.place(description, piece.source);
        if (piece.source == control::kDescriptorsMax) {
          break;  // this piece opens the next record
        }
      }
    }
    const bool last = sent == description.pieces.size();
    request.piece_count = count;
    request.more_pieces = last ? 0 : 1;
    const Client::Part part = first ? (last ? Client::Part::kOnly : Client::Part::kFirst)
                                    : (last ? Client::Part::kLast : Client::Part::kMiddle);
    const int error = client.exchange("ibv_reg_mr", control::Command::kRegMr, request.header,
                                      sizeof(request) + count * sizeof(abi::MemoryPiece),
                                      reply.header, sizeof(reply), nullptr, passed.all(), part);
    if (error != 0) {
      return error;
    }
    first = false;
  } while (sent < description.pieces.size());
  return 0;
}

}  // namespace uroce::shim
