#include "control/commands/conversation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <variant>

#include "abi/version.h"
#include "base/memory/memory_reserve.h"
#include "control/commands/capture.h"
#include "control/commands/command_table.h"

namespace uroce::control {
namespace {

constexpr std::uint64_t kPieceOfReport = 2ULL * kRecordMax;  // at most a piece and its records

abi::ReplyHeader reply_header(std::uint32_t sequence) {
  abi::ReplyHeader header;
  header.version = abi::kVersion;
  header.sequence = sequence;
  return header;
}

}  // namespace

Error out_of_memory() {
  return {ENOMEM,
          "the daemon has no memory left: all programs together ask for more than its limit "
          "(RLIMIT_AS) or the machine has"};
}

Conversation::Conversation(const Services& services, std::uint64_t id, const Peer& peer)
    : services_(services), session_(std::make_unique<Session>(services.card, id, peer)) {}

Conversation::~Conversation() {
  cm_user_.reset();  // peers are notified before the queue pairs fall silent
  const std::shared_ptr<Mirror> mirror = session_->mirror();
  session_.reset();
  if (mirror != nullptr) {
    services_.paging->close(mirror);  // nothing in the session can fault any more
  }
}

cm_user::User& Conversation::cm_user() {
  if (cm_user_ == nullptr) {
    cm_user_ = std::make_unique<cm_user::User>(
        services_.connections, session_->peer(), session_->account(), [this](std::string text) {
          services_.errors.add_refusal(session_->id(), session_->peer(), *session_->account(),
                                       std::move(text));
        });
  }
  return *cm_user_;
}

void Conversation::receive(Record record) {
  reply_charge_ = Charge();
  abi::RequestHeader header;
  if (record.bytes.size() < sizeof(header)) {
    refuse(EBADMSG, "the record is shorter than its header");
    return;
  }
  std::memcpy(&header, record.bytes.data(), sizeof(header));
  if (header.magic != abi::kMagic) {
    refuse(EBADMSG, "the record isn't one of uroce's");
    return;
  }
  if (header.version != abi::kVersion) {
    reply_error(header.sequence,
                {EPROTONOSUPPORT,
                 "uroced has version " + std::to_string(abi::kVersion) +
                     " of the interface to programs, this program has version " +
                     std::to_string(header.version) +
                     ": install the same uroce for both, and restart whichever was started "
                     "before an upgrade"});
    finished_ = true;
    return;
  }
  if (header.length != record.bytes.size() ||
      header.descriptor_count != record.descriptors.size()) {
    reply_error(header.sequence,
                {EBADMSG, "the record's length or number of descriptors is wrong"});
    return;
  }
  run(header, Request{std::move(record.bytes), std::move(record.descriptors)});
}

void Conversation::receive_without_descriptors(const Record& record) {
  abi::RequestHeader header;
  if (record.bytes.size() < sizeof(header)) {
    refuse(EBADMSG, "the record is shorter than its header");
    return;
  }
  std::memcpy(&header, record.bytes.data(), sizeof(header));
  reply_error(header.sequence,
              {EMFILE,
               "the daemon has no descriptors left (ulimit -n) for those that came "
               "with the request"});
}

void Conversation::refuse(int error, const std::string& message) {
  reply_error(0, {error, message});
  finished_ = true;
}

void Conversation::resume() {
  if (waiting_) {
    Waiting again = std::move(*waiting_);
    waiting_.reset();
    run(again.header, std::move(again.request));
  }
}

void Conversation::run(const abi::RequestHeader& header, Request request) {
  Reply answer;
  const Result<Outcome> outcome = dispatch_within_memory(header, request, &answer);
  if (!outcome) {
    log_refusal(header.command, outcome.error());
    reply_error(header.sequence, outcome.error());
    return;
  }
  switch (*outcome) {
    case Outcome::kReply:
      reply(header.sequence, std::move(answer));
      break;
    case Outcome::kPieces:
      report_sequence_ = header.sequence;
      break;
    case Outcome::kWait:
      waiting_ = Waiting{header, std::move(request)};
      break;
  }
}

void Conversation::log_refusal(abi::Command command, const Error& error) {
  const CommandRule* rule = command_rule(command);
  if (session_->device() == nullptr || rule == nullptr) {
    return;  // no device open, or not a command
  }
  services_.errors.add_refusal(session_->id(), session_->peer(), *session_->account(),
                               std::string(rule->name) + " refused with " +
                                   strerrorname_np(error.code) + ": " + error.message);
}

// std::bad_alloc becomes an ENOMEM reply, as in the kernel.
Result<Outcome> Conversation::dispatch_within_memory(const abi::RequestHeader& header,
                                                     Request& request, Reply* reply) {
  try {
    return dispatch(header, request, reply);
  } catch (const std::bad_alloc&) {
    *reply = {};
    return out_of_memory();
  }
}

Result<Outcome> Conversation::dispatch(const abi::RequestHeader& header, Request& request,
                                       Reply* reply) {
  const CommandRule* rule = command_rule(header.command);
  if (rule == nullptr) {
    return Error{EOPNOTSUPP, "this uroced has no command " +
                                 std::to_string(static_cast<std::uint32_t>(header.command))};
  }
  const std::size_t length = request.bytes.size();
  if (length < rule->length || (length > rule->length && !rule->tail)) {
    return Error{EBADMSG, std::string(rule->name) + ": the record has the wrong length"};
  }
  if (request.descriptors.size() > rule->descriptors_max) {
    return Error{EBADMSG, std::string(rule->name) + ": the record has too many descriptors"};
  }
  if (rule->needs_device && session_->device() == nullptr) {
    return Error{EBADF, std::string(rule->name) + ": no device is open on this connection"};
  }
  // A command whose work is done, and that only waits for helpers, completes as usual.
  if (!hold_memory_reserve() && !gives_back(*rule) && request.helpers == nullptr) {
    return out_of_memory();
  }
  if (const auto* handler = std::get_if<SessionHandler>(&rule->handler)) {
    return (*handler)(*session_, request, reply);
  }
  return std::get<ConversationHandler>(rule->handler)(*this, request, reply);
}

Status Conversation::answer_with(std::unique_ptr<StatusReport> report) {
  auto charge = session_->account()->charge(Limit::kReplyMemory, report->bytes() + kPieceOfReport);
  if (!charge) {
    return charge.error();
  }
  reply_charge_ = std::move(*charge);
  report_ = std::move(report);
  return ok();
}

void Conversation::answer_more() {
  Reply piece;
  piece.set_text(report_->next());
  const bool more = !report_->done();
  if (!more || piece.bytes.size() > sizeof(abi::ReplyHeader)) {
    reply(report_sequence_, std::move(piece), more);
  }
  if (!more) {
    report_.reset();
  }
}

// Reports in JSON are longer than a record; every other reply is one piece. `more`: further pieces
// follow.
void Conversation::reply(std::uint32_t sequence, Reply reply, bool more) {
  constexpr std::size_t kPieceMax = kRecordMax - sizeof(abi::ReplyHeader);
  std::span<const std::byte> rest(reply.bytes);
  rest = rest.subspan(sizeof(abi::ReplyHeader));
  if (rest.size() > kPieceMax && !answering()) {
    auto charge = session_->account()->charge(Limit::kReplyMemory, rest.size());
    if (!charge) {
      return reply_error(sequence, charge.error());
    }
    reply_charge_ = std::move(*charge);
  }
  do {
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPieceMax));
    rest = rest.subspan(piece.size());
    Record record;
    abi::ReplyHeader header = reply_header(sequence);
    header.length = static_cast<std::uint32_t>(sizeof(header) + piece.size());
    header.flags = rest.empty() && !more ? 0 : static_cast<std::uint32_t>(abi::kReplyMore);
    if (rest.empty()) {
      std::swap(record.descriptors, reply.descriptors);
    }
    header.descriptor_count = static_cast<std::uint32_t>(record.descriptors.size());
    record.bytes.resize(header.length);
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    std::copy(piece.begin(), piece.end(), record.bytes.begin() + sizeof(header));
    outbox_.push_back(std::move(record));
  } while (!rest.empty());
}

void Conversation::reply_error(std::uint32_t sequence, const Error& error) {
  abi::ReplyHeader header = reply_header(sequence);
  header.error = error.code;
  header.length = sizeof(header);
  const std::size_t length = std::min<std::size_t>(error.message.size(), abi::kMessageMax - 1);
  std::memcpy(header.message, error.message.data(), length);
  Record record;
  record.bytes.resize(sizeof(header));
  std::memcpy(record.bytes.data(), &header, sizeof(header));
  outbox_.push_back(std::move(record));
}

void Conversation::keep(std::unique_ptr<Capture> capture) { capture_ = std::move(capture); }

}  // namespace uroce::control
